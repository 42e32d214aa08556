// The API's shape while it is being built: each function moves to its own file and this one goes.

package state

import "time"

type slot struct{}
type owner struct{}
type openInFlight struct{}

// Client is a client record. Its methods may be called from any goroutine.
type Client struct{}

func (c *Client) ID() ClientID             { panic("state: not built yet") }
func (c *Client) Minor() uint8             { panic("state: not built yet") }
func (c *Client) Owner() []byte            { panic("state: not built yet") }
func (c *Client) Callback() CallbackTarget { panic("state: not built yet") } // 4.0
func (c *Client) BackSession() *Session    { panic("state: not built yet") } // 4.1: a session with a back channel, or nil

// Session is a session; methods as for Client.
type Session struct{}

func (s *Session) ID() SessionID      { panic("state: not built yet") }
func (s *Session) Client() *Client    { panic("state: not built yet") }
func (s *Session) CBProgram() uint32  { panic("state: not built yet") }
func (s *Session) CBSec() CBSec       { panic("state: not built yet") }
func (s *Session) Fore() ChannelAttrs { panic("state: not built yet") }
func (s *Session) Back() ChannelAttrs { panic("state: not built yet") }

// BackConns appends the ids of the connections bound to the back channel.
func (s *Session) BackConns(dst []uint64) []uint64 { panic("state: not built yet") }

// CBAcquire takes a free slot of the back channel; ok is false when all are busy.
func (s *Session) CBAcquire() (slot, seq, highest uint32, ok bool) { panic("state: not built yet") }

// CBRelease frees it; used says that the client has seen the sequence id.
func (s *Session) CBRelease(slot uint32, used bool) { panic("state: not built yet") }

// Waiter is a queued NLM lock request.
type Waiter struct {
	Granted func(w *Waiter, cookie any)
}

type State struct{}

func New(cfg Config) (*State, error)  { panic("state: not built yet") }
func (s *State) Close() error         { panic("state: not built yet") }
func (s *State) Tick()                { panic("state: not built yet") }
func (s *State) Lease() time.Duration { panic("state: not built yet") }
func (s *State) InGrace() bool        { panic("state: not built yet") }
func (s *State) EndGrace()            { panic("state: not built yet") }

func (s *State) SetClientID(c *Call, a *SetClientIDArgs) (SetClientIDRes, error) {
	panic("state: not built yet")
}
func (s *State) SetClientIDConfirm(c *Call, id ClientID, confirm Verifier) error {
	panic("state: not built yet")
}
func (s *State) Renew(c *Call, id ClientID) error { panic("state: not built yet") }
func (s *State) ReleaseLockOwner(c *Call, id ClientID, owner []byte) error {
	panic("state: not built yet")
}
func (s *State) ExchangeID(c *Call, a *ExchangeIDArgs) (ExchangeIDRes, error) {
	panic("state: not built yet")
}
func (s *State) CreateSession(c *Call, a *CreateSessionArgs) (CreateSessionRes, error) {
	panic("state: not built yet")
}
func (s *State) DestroySession(c *Call, id SessionID) error { panic("state: not built yet") }
func (s *State) DestroyClientID(c *Call, id ClientID) error { panic("state: not built yet") }
func (s *State) BindConn(c *Call, id SessionID, dir BindDir) (BindDir, error) {
	panic("state: not built yet")
}
func (s *State) ConnClosed(conn uint64) { panic("state: not built yet") }
func (s *State) BackchannelCtl(c *Call, program uint32, sec []CBSec) error {
	panic("state: not built yet")
}
func (s *State) ReclaimComplete(c *Call, oneFS bool) error { panic("state: not built yet") }
func (s *State) Sequence(c *Call, a *SequenceArgs) (SequenceRes, error) {
	panic("state: not built yet")
}

// SequenceDone ends a COMPOUND that Sequence began (also one that was a replay). The slot keeps a copy of reply if the
// client asked for it; nil: the reply was too large (answered REP_TOO_BIG_TO_CACHE) or must not be kept.
func (s *State) SequenceDone(c *Call, reply []byte) { panic("state: not built yet") }

// OwnerDone ends an operation with a 4.0 seqid. bump: the status is not one of those that leave the seqid (RFC 7530 9.1.7).
func (s *State) OwnerDone(c *Call, bump bool, reply []byte) { panic("state: not built yet") }

func (s *State) OpenBegin(c *Call, a *OpenBeginArgs) error  { panic("state: not built yet") }
func (s *State) Open(c *Call, a *OpenArgs) (OpenRes, error) { panic("state: not built yet") }

// OpenUndo takes the Open of this call back: what had to follow it failed.
func (s *State) OpenUndo(c *Call) { panic("state: not built yet") }
func (s *State) OpenConfirm(c *Call, file FileKey, sid Stateid, seqid uint32) (Stateid, error) {
	panic("state: not built yet")
}
func (s *State) OpenDowngrade(c *Call, file FileKey, sid Stateid, seqid uint32, access, deny uint8) (Stateid, error) {
	panic("state: not built yet")
}
func (s *State) CloseFile(c *Call, file FileKey, sid Stateid, seqid uint32) (Stateid, error) {
	panic("state: not built yet")
}
func (s *State) CheckIO(c *Call, file FileKey, sid Stateid, want Access) (IO, error) {
	panic("state: not built yet")
}
func (s *State) SetAdvice(c *Call, file FileKey, sid Stateid, advice uint64) error {
	panic("state: not built yet")
}
func (s *State) TestStateid(c *Call, sid Stateid) error { panic("state: not built yet") }
func (s *State) FreeStateid(c *Call, sid Stateid) error { panic("state: not built yet") }

func (s *State) Lock(c *Call, a *LockArgs) (Stateid, LockConflict, error) {
	panic("state: not built yet")
}
func (s *State) TestLock(c *Call, a *TestLockArgs) (LockConflict, error) {
	panic("state: not built yet")
}
func (s *State) Unlock(c *Call, a *UnlockArgs) (Stateid, error) { panic("state: not built yet") }

func (s *State) NLMLock(c *Call, a *NLMLockArgs) (LockConflict, error) { panic("state: not built yet") }
func (s *State) NLMTest(c *Call, a *NLMLockArgs) (LockConflict, error) { panic("state: not built yet") }
func (s *State) NLMUnlock(c *Call, a *NLMLockArgs) error               { panic("state: not built yet") }
func (s *State) NLMCancel(c *Call, a *NLMLockArgs) error               { panic("state: not built yet") }
func (s *State) NLMRelease(host string)                                { panic("state: not built yet") }

func (s *State) DelegReturn(c *Call, file FileKey, sid Stateid) error { panic("state: not built yet") }

// DelegAttrs asks the holder of a write delegation, if it is another client, for the file's attributes; ok is false when
// there is no such delegation. It waits a little for the answer (ErrWouldBlock first); then it recalls and gives ErrDelay.
func (s *State) DelegAttrs(c *Call, file FileKey) (a DelegAttrs, ok bool, err error) {
	panic("state: not built yet")
}
func (s *State) DelegAttrsDone(r Recall, a DelegAttrs, err error) { panic("state: not built yet") }
func (s *State) RecallDone(r Recall, err error)                   { panic("state: not built yet") }
func (s *State) SetCallbackPath(c *Client, up bool)               { panic("state: not built yet") }
func (s *State) LeaseBroken(file FileKey)                         { panic("state: not built yet") }

func (s *State) ExpireClient(id ClientID) error { panic("state: not built yet") }
