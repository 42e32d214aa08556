// The table of operations.

package nfs4

import wire "sluice/xdr/nfs4"

// opFlags say what an operation needs and does.
type opFlags uint8

const (
	needFH      opFlags = 1 << iota // NOFILEHANDLE without a current file handle
	needSaved                       // NOFILEHANDLE without a saved one
	effect                          // changes something; reply is its largest result
	seqid                           // 4.0: uses an owner's seqid
	sessionless                     // may be the first operation from 4.1 on
)

// Minor versions of an operation.
const (
	m0   uint8 = 1 << iota
	m1         // 4.1
	m2         // 4.2
	mAll = m0 | m1 | m2
	m12  = m1 | m2
)

// opRow is one operation.
type opRow struct {
	name   string
	run    func(*compound) status // nil: NFS4ERR_NOTSUPP
	minors uint8
	flags  opFlags
	reply  uint16 // largest result without status, in bytes, of operations with an effect
}

// Largest results.
const (
	cinfoLen   = 20
	bitmapLen  = 4 + 4*wire.BitmapWords
	stateidLen = 16
	deniedLen  = 8 + 8 + 4 + 8 + 4 + wire.NFS4_OPAQUE_LIMIT
	openLen    = stateidLen + cinfoLen + 4 + bitmapLen + 4 + stateidLen + 4 + 12 + 12 + 4 + 16
)

// opMax holds the highest operation number of each minor version.
var opMax = [3]uint32{uint32(wire.OP_RELEASE_LOCKOWNER), uint32(wire.OP_RECLAIM_COMPLETE), uint32(wire.OP_REMOVEXATTR)}

var ops [numOps]opRow

func init() { // the operations refer to the table by way of the interpreter
	ops = [...]opRow{
		wire.OP_ACCESS:              {"ACCESS", (*compound).opAccess, mAll, needFH, 0},
		wire.OP_CLOSE:               {"CLOSE", (*compound).opClose, mAll, needFH | effect | seqid, stateidLen},
		wire.OP_COMMIT:              {"COMMIT", (*compound).opCommit, mAll, needFH, 0},
		wire.OP_CREATE:              {"CREATE", (*compound).opCreate, mAll, needFH | effect, cinfoLen + bitmapLen},
		wire.OP_DELEGPURGE:          {"DELEGPURGE", nil, mAll, 0, 0}, // as Linux: CLAIM_DELEGATE_PREV is not served
		wire.OP_DELEGRETURN:         {"DELEGRETURN", (*compound).opDelegReturn, mAll, needFH | effect, 0},
		wire.OP_GETATTR:             {"GETATTR", (*compound).opGetattr, mAll, needFH, 0},
		wire.OP_GETFH:               {"GETFH", (*compound).opGetFH, mAll, needFH, 0},
		wire.OP_LINK:                {"LINK", (*compound).opLink, mAll, needFH | needSaved | effect, cinfoLen},
		wire.OP_LOCK:                {"LOCK", (*compound).opLock, mAll, needFH | effect | seqid, deniedLen},
		wire.OP_LOCKT:               {"LOCKT", (*compound).opLockT, mAll, needFH, 0},
		wire.OP_LOCKU:               {"LOCKU", (*compound).opLockU, mAll, needFH | effect | seqid, stateidLen},
		wire.OP_LOOKUP:              {"LOOKUP", (*compound).opLookup, mAll, needFH, 0},
		wire.OP_LOOKUPP:             {"LOOKUPP", (*compound).opLookupp, mAll, needFH, 0},
		wire.OP_NVERIFY:             {"NVERIFY", (*compound).opNverify, mAll, needFH, 0},
		wire.OP_OPEN:                {"OPEN", (*compound).opOpen, mAll, needFH | effect | seqid, openLen},
		wire.OP_OPENATTR:            {"OPENATTR", nil, mAll, needFH, 0}, // no named attributes
		wire.OP_OPEN_CONFIRM:        {"OPEN_CONFIRM", (*compound).opOpenConfirm, m0, needFH | effect | seqid, stateidLen},
		wire.OP_OPEN_DOWNGRADE:      {"OPEN_DOWNGRADE", (*compound).opOpenDowngrade, mAll, needFH | effect | seqid, stateidLen},
		wire.OP_PUTFH:               {"PUTFH", (*compound).opPutFH, mAll, 0, 0},
		wire.OP_PUTPUBFH:            {"PUTPUBFH", (*compound).opPutRootFH, mAll, 0, 0},
		wire.OP_PUTROOTFH:           {"PUTROOTFH", (*compound).opPutRootFH, mAll, 0, 0},
		wire.OP_READ:                {"READ", (*compound).opRead, mAll, needFH, 0},
		wire.OP_READDIR:             {"READDIR", (*compound).opReaddir, mAll, needFH, 0},
		wire.OP_READLINK:            {"READLINK", (*compound).opReadlink, mAll, needFH, 0},
		wire.OP_REMOVE:              {"REMOVE", (*compound).opRemove, mAll, needFH | effect, cinfoLen},
		wire.OP_RENAME:              {"RENAME", (*compound).opRename, mAll, needFH | needSaved | effect, 2 * cinfoLen},
		wire.OP_RENEW:               {"RENEW", (*compound).opRenew, m0, 0, 0},
		wire.OP_RESTOREFH:           {"RESTOREFH", (*compound).opRestoreFH, mAll, 0, 0},
		wire.OP_SAVEFH:              {"SAVEFH", (*compound).opSaveFH, mAll, needFH, 0},
		wire.OP_SECINFO:             {"SECINFO", (*compound).opSecinfo, mAll, needFH, 0},
		wire.OP_SETATTR:             {"SETATTR", (*compound).opSetattr, mAll, needFH | effect, bitmapLen},
		wire.OP_SETCLIENTID:         {"SETCLIENTID", (*compound).opSetClientID, m0, effect, 16},
		wire.OP_SETCLIENTID_CONFIRM: {"SETCLIENTID_CONFIRM", (*compound).opSetClientIDConfirm, m0, effect, 0},
		wire.OP_VERIFY:              {"VERIFY", (*compound).opVerify, mAll, needFH, 0},
		wire.OP_WRITE:               {"WRITE", (*compound).opWrite, mAll, needFH | effect, 16},
		wire.OP_RELEASE_LOCKOWNER:   {"RELEASE_LOCKOWNER", (*compound).opReleaseLockOwner, m0, effect, 0},

		wire.OP_BACKCHANNEL_CTL:      {"BACKCHANNEL_CTL", (*compound).opBackchannelCtl, m12, effect, 0},
		wire.OP_BIND_CONN_TO_SESSION: {"BIND_CONN_TO_SESSION", (*compound).opBindConn, m12, effect | sessionless, 24},
		wire.OP_EXCHANGE_ID:          {"EXCHANGE_ID", (*compound).opExchangeID, m12, effect | sessionless, 2600},
		wire.OP_CREATE_SESSION:       {"CREATE_SESSION", (*compound).opCreateSession, m12, effect | sessionless, 88},
		wire.OP_DESTROY_SESSION:      {"DESTROY_SESSION", (*compound).opDestroySession, m12, effect | sessionless, 0},
		wire.OP_FREE_STATEID:         {"FREE_STATEID", (*compound).opFreeStateid, m12, effect, 0},
		wire.OP_GET_DIR_DELEGATION:   {"GET_DIR_DELEGATION", (*compound).opGetDirDelegation, m12, needFH, 0},
		wire.OP_GETDEVICEINFO:        {"GETDEVICEINFO", nil, m12, 0, 0},
		wire.OP_GETDEVICELIST:        {"GETDEVICELIST", nil, m1, needFH, 0},
		wire.OP_LAYOUTCOMMIT:         {"LAYOUTCOMMIT", nil, m12, needFH, 0},
		wire.OP_LAYOUTGET:            {"LAYOUTGET", (*compound).opLayoutGet, m12, needFH, 0},
		wire.OP_LAYOUTRETURN:         {"LAYOUTRETURN", nil, m12, needFH, 0},
		wire.OP_SECINFO_NO_NAME:      {"SECINFO_NO_NAME", (*compound).opSecinfoNoName, m12, needFH, 0},
		wire.OP_SEQUENCE:             {"SEQUENCE", (*compound).opSequence, m12, sessionless, 0},
		wire.OP_SET_SSV:              {"SET_SSV", nil, m12, 0, 0}, // SP4_SSV is not served
		wire.OP_TEST_STATEID:         {"TEST_STATEID", (*compound).opTestStateid, m12, 0, 0},
		wire.OP_WANT_DELEGATION:      {"WANT_DELEGATION", nil, m12, needFH, 0},
		wire.OP_DESTROY_CLIENTID:     {"DESTROY_CLIENTID", (*compound).opDestroyClientID, m12, effect | sessionless, 0},
		wire.OP_RECLAIM_COMPLETE:     {"RECLAIM_COMPLETE", (*compound).opReclaimComplete, m12, effect, 0},

		wire.OP_ALLOCATE:       {"ALLOCATE", (*compound).opAllocate, m2, needFH | effect, 0},
		wire.OP_COPY:           {"COPY", (*compound).opCopy, m2, needFH | needSaved | effect, 64},
		wire.OP_COPY_NOTIFY:    {"COPY_NOTIFY", nil, m2, needFH, 0}, // for copies between servers
		wire.OP_DEALLOCATE:     {"DEALLOCATE", (*compound).opDeallocate, m2, needFH | effect, 0},
		wire.OP_IO_ADVISE:      {"IO_ADVISE", (*compound).opIOAdvise, m2, needFH | effect, bitmapLen},
		wire.OP_LAYOUTERROR:    {"LAYOUTERROR", nil, m2, needFH, 0},
		wire.OP_LAYOUTSTATS:    {"LAYOUTSTATS", nil, m2, needFH, 0},
		wire.OP_OFFLOAD_CANCEL: {"OFFLOAD_CANCEL", (*compound).opOffloadCancel, m2, needFH | effect, 0},
		wire.OP_OFFLOAD_STATUS: {"OFFLOAD_STATUS", (*compound).opOffloadStatus, m2, needFH, 0},
		wire.OP_READ_PLUS:      {"READ_PLUS", (*compound).opReadPlus, m2, needFH, 0},
		wire.OP_SEEK:           {"SEEK", (*compound).opSeek, m2, needFH, 0},
		wire.OP_WRITE_SAME:     {"WRITE_SAME", nil, m2, needFH, 0},
		wire.OP_CLONE:          {"CLONE", (*compound).opClone, m2, needFH | needSaved | effect, 0},
		wire.OP_GETXATTR:       {"GETXATTR", (*compound).opGetXattr, m2, needFH, 0},
		wire.OP_SETXATTR:       {"SETXATTR", (*compound).opSetXattr, m2, needFH | effect, cinfoLen},
		wire.OP_LISTXATTRS:     {"LISTXATTRS", (*compound).opListXattrs, m2, needFH, 0},
		wire.OP_REMOVEXATTR:    {"REMOVEXATTR", (*compound).opRemoveXattr, m2, needFH | effect, cinfoLen},
	}
}

// lookupOp finds an operation; nil when the minor version has no such number.
func lookupOp(num, minor uint32) *opRow {
	if num > opMax[minor] || ops[num].minors == 0 {
		return nil
	}
	return &ops[num]
}
