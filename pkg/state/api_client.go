// Arguments and results of the operations on clients and sessions.

package state

// CallbackTarget is where and how a 4.0 client takes callbacks (cb_client4, callback_ident).
type CallbackTarget struct {
	Program uint32
	NetID   string // tcp, tcp6
	Addr    string // universal address
	Ident   uint32
}

// SetClientIDArgs are those of SETCLIENTID.
type SetClientIDArgs struct {
	Verifier Verifier
	ID       []byte
	Callback CallbackTarget
}

// SetClientIDRes is its answer. With ErrClientInUse, Holder is the callback target of who has the name.
type SetClientIDRes struct {
	ClientID ClientID
	Confirm  Verifier
	Holder   CallbackTarget
}

// Flags of EXCHANGE_ID (RFC 8881 18.35), with their numbers.
const (
	FlagSuppMovedRefer    uint32 = 0x00000001
	FlagSuppMovedMigr     uint32 = 0x00000002
	FlagBindPrincStateid  uint32 = 0x00000100
	FlagUseNonPNFS        uint32 = 0x00010000
	FlagUsePNFSMDS        uint32 = 0x00020000
	FlagUsePNFSDS         uint32 = 0x00040000
	FlagUpdConfirmedRecA  uint32 = 0x40000000
	FlagConfirmedR        uint32 = 0x80000000
	flagsPNFS             uint32 = FlagUseNonPNFS | FlagUsePNFSMDS | FlagUsePNFSDS
	flagsExchangeIDClient uint32 = FlagSuppMovedRefer | FlagSuppMovedMigr | FlagBindPrincStateid | flagsPNFS | FlagUpdConfirmedRecA
)

// Protect is state_protect_how4, with its numbers.
type Protect uint8

// The kinds of state protection.
const (
	ProtectNone     Protect = iota // SP4_NONE
	ProtectMachCred                // SP4_MACH_CRED
	ProtectSSV                     // SP4_SSV: not supported
)

// ExchangeIDArgs are those of EXCHANGE_ID.
type ExchangeIDArgs struct {
	Verifier Verifier
	Owner    []byte
	Flags    uint32
	Protect  Protect
	ImplName string // of nii_name, nii_domain: for admin output; empty if not told
}

// ExchangeIDRes is its answer.
type ExchangeIDRes struct {
	ClientID ClientID
	Sequence uint32 // for the next CREATE_SESSION
	Flags    uint32
	Protect  Protect
}

// ChannelAttrs are a channel's limits (channel_attrs4), in bytes and counts.
type ChannelAttrs struct {
	HeaderPad         uint32
	MaxRequest        uint32
	MaxResponse       uint32
	MaxResponseCached uint32
	MaxOps            uint32
	MaxRequests       uint32 // slots
}

// Flags of CREATE_SESSION, with their numbers.
const (
	SessionPersist  uint32 = 1
	SessionConnBack uint32 = 2
	SessionConnRDMA uint32 = 4
)

// CBSec is one way in which the server may identify itself in callbacks (callback_sec_parms4).
type CBSec struct {
	Flavor   uint32 // 0 none, 1 sys
	UID, GID uint32
	Groups   []uint32
	Machine  string
}

// CreateSessionArgs are those of CREATE_SESSION.
type CreateSessionArgs struct {
	ClientID  ClientID
	Sequence  uint32
	Flags     uint32
	Fore      ChannelAttrs
	Back      ChannelAttrs
	CBProgram uint32
	CBSec     []CBSec
}

// CreateSessionRes is its answer. The same sequence id gets the same one again.
type CreateSessionRes struct {
	SessionID SessionID
	Sequence  uint32
	Flags     uint32
	Fore      ChannelAttrs
	Back      ChannelAttrs
}

// BindDir is channel_dir_from_client4 and channel_dir_from_server4, with their numbers.
type BindDir uint8

// The directions.
const (
	BindFore       BindDir = 1
	BindBack       BindDir = 2
	BindForeOrBoth BindDir = 3 // from the server: both
	BindBackOrBoth BindDir = 7
)

// SequenceArgs are those of SEQUENCE.
type SequenceArgs struct {
	SessionID   SessionID
	Sequence    uint32
	Slot        uint32
	HighestSlot uint32
	CacheThis   bool
	Last        bool   // SEQUENCE is the COMPOUND's only operation
	Ops         uint32 // operations in the COMPOUND, SEQUENCE included
	Size        uint32 // bytes of the request
	Digest      uint64 // of what a retry must repeat; 0 is compared too
}

// SequenceRes is its answer.
type SequenceRes struct {
	Highest   uint32 // sr_highest_slotid
	Target    uint32 // sr_target_highest_slotid
	Status    uint32 // sr_status_flags, the Seq4 bits
	Replay    []byte // set with ErrReplay: the reply as it was; valid until SequenceDone
	MaxReply  uint32 // ca_maxresponsesize
	MaxCached uint32 // bytes that may be kept: REP_TOO_BIG_TO_CACHE beyond, when CacheThis
}

// Status flags of SEQUENCE, with their numbers (RFC 8881 18.46.3).
const (
	Seq4CBPathDown         uint32 = 0x001
	Seq4ExpiredAllRevoked  uint32 = 0x008
	Seq4ExpiredSomeRevoked uint32 = 0x010
	Seq4AdminRevoked       uint32 = 0x020
	Seq4RecallableRevoked  uint32 = 0x040
	Seq4RestartReclaim     uint32 = 0x100
	Seq4CBPathDownSession  uint32 = 0x200
	Seq4BackchannelFault   uint32 = 0x400
)
