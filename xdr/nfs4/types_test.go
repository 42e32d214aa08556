package nfs4

import (
	"testing"

	"sluice/xdr"
	"sluice/xdr/xdrtest"
)

func FuzzTypes(f *testing.F) { xdrtest.Fuzz(f, allTypes) }

func TestBounds(t *testing.T) { xdrtest.Bounds(t, allTypes) }

func TestAllocs(t *testing.T) {
	xdrtest.Allocs(t, allTypes, "READ4resok", "READ4res", "Data4", "ReadPlusContent", "ReadPlusRes4", "READPLUS4res")
}

// operations has the arguments and results of every operation; that it
// compiles is half of the test.
var operations = map[NfsOpnum4][2]xdr.Type{
	OP_ACCESS:               {new(ACCESS4args), new(ACCESS4res)},
	OP_CLOSE:                {new(CLOSE4args), new(CLOSE4res)},
	OP_COMMIT:               {new(COMMIT4args), new(COMMIT4res)},
	OP_CREATE:               {new(CREATE4args), new(CREATE4res)},
	OP_DELEGPURGE:           {new(DELEGPURGE4args), new(DELEGPURGE4res)},
	OP_DELEGRETURN:          {new(DELEGRETURN4args), new(DELEGRETURN4res)},
	OP_GETATTR:              {new(GETATTR4args), new(GETATTR4res)},
	OP_GETFH:                {new(GETFH4args), new(GETFH4res)},
	OP_LINK:                 {new(LINK4args), new(LINK4res)},
	OP_LOCK:                 {new(LOCK4args), new(LOCK4res)},
	OP_LOCKT:                {new(LOCKT4args), new(LOCKT4res)},
	OP_LOCKU:                {new(LOCKU4args), new(LOCKU4res)},
	OP_LOOKUP:               {new(LOOKUP4args), new(LOOKUP4res)},
	OP_LOOKUPP:              {new(LOOKUPP4args), new(LOOKUPP4res)},
	OP_NVERIFY:              {new(NVERIFY4args), new(NVERIFY4res)},
	OP_OPEN:                 {new(OPEN4args), new(OPEN4res)},
	OP_OPENATTR:             {new(OPENATTR4args), new(OPENATTR4res)},
	OP_OPEN_CONFIRM:         {new(OPENCONFIRM4args), new(OPENCONFIRM4res)},
	OP_OPEN_DOWNGRADE:       {new(OPENDOWNGRADE4args), new(OPENDOWNGRADE4res)},
	OP_PUTFH:                {new(PUTFH4args), new(PUTFH4res)},
	OP_PUTPUBFH:             {new(PUTPUBFH4args), new(PUTPUBFH4res)},
	OP_PUTROOTFH:            {new(PUTROOTFH4args), new(PUTROOTFH4res)},
	OP_READ:                 {new(READ4args), new(READ4res)},
	OP_READDIR:              {new(READDIR4args), new(READDIR4res)},
	OP_READLINK:             {new(READLINK4args), new(READLINK4res)},
	OP_REMOVE:               {new(REMOVE4args), new(REMOVE4res)},
	OP_RENAME:               {new(RENAME4args), new(RENAME4res)},
	OP_RENEW:                {new(RENEW4args), new(RENEW4res)},
	OP_RESTOREFH:            {new(RESTOREFH4args), new(RESTOREFH4res)},
	OP_SAVEFH:               {new(SAVEFH4args), new(SAVEFH4res)},
	OP_SECINFO:              {new(SECINFO4args), new(SECINFO4res)},
	OP_SETATTR:              {new(SETATTR4args), new(SETATTR4res)},
	OP_SETCLIENTID:          {new(SETCLIENTID4args), new(SETCLIENTID4res)},
	OP_SETCLIENTID_CONFIRM:  {new(SETCLIENTIDCONFIRM4args), new(SETCLIENTIDCONFIRM4res)},
	OP_VERIFY:               {new(VERIFY4args), new(VERIFY4res)},
	OP_WRITE:                {new(WRITE4args), new(WRITE4res)},
	OP_RELEASE_LOCKOWNER:    {new(RELEASELOCKOWNER4args), new(RELEASELOCKOWNER4res)},
	OP_BACKCHANNEL_CTL:      {new(BACKCHANNELCTL4args), new(BACKCHANNELCTL4res)},
	OP_BIND_CONN_TO_SESSION: {new(BINDCONNTOSESSION4args), new(BINDCONNTOSESSION4res)},
	OP_EXCHANGE_ID:          {new(EXCHANGEID4args), new(EXCHANGEID4res)},
	OP_CREATE_SESSION:       {new(CREATESESSION4args), new(CREATESESSION4res)},
	OP_DESTROY_SESSION:      {new(DESTROYSESSION4args), new(DESTROYSESSION4res)},
	OP_FREE_STATEID:         {new(FREESTATEID4args), new(FREESTATEID4res)},
	OP_GET_DIR_DELEGATION:   {new(GETDIRDELEGATION4args), new(GETDIRDELEGATION4res)},
	OP_GETDEVICEINFO:        {new(GETDEVICEINFO4args), new(GETDEVICEINFO4res)},
	OP_GETDEVICELIST:        {new(GETDEVICELIST4args), new(GETDEVICELIST4res)},
	OP_LAYOUTCOMMIT:         {new(LAYOUTCOMMIT4args), new(LAYOUTCOMMIT4res)},
	OP_LAYOUTGET:            {new(LAYOUTGET4args), new(LAYOUTGET4res)},
	OP_LAYOUTRETURN:         {new(LAYOUTRETURN4args), new(LAYOUTRETURN4res)},
	OP_SECINFO_NO_NAME:      {new(SECINFONONAME4args), new(SECINFONONAME4res)},
	OP_SEQUENCE:             {new(SEQUENCE4args), new(SEQUENCE4res)},
	OP_SET_SSV:              {new(SETSSV4args), new(SETSSV4res)},
	OP_TEST_STATEID:         {new(TESTSTATEID4args), new(TESTSTATEID4res)},
	OP_WANT_DELEGATION:      {new(WANTDELEGATION4args), new(WANTDELEGATION4res)},
	OP_DESTROY_CLIENTID:     {new(DESTROYCLIENTID4args), new(DESTROYCLIENTID4res)},
	OP_RECLAIM_COMPLETE:     {new(RECLAIMCOMPLETE4args), new(RECLAIMCOMPLETE4res)},
	OP_ALLOCATE:             {new(ALLOCATE4args), new(ALLOCATE4res)},
	OP_COPY:                 {new(COPY4args), new(COPY4res)},
	OP_COPY_NOTIFY:          {new(COPYNOTIFY4args), new(COPYNOTIFY4res)},
	OP_DEALLOCATE:           {new(DEALLOCATE4args), new(DEALLOCATE4res)},
	OP_IO_ADVISE:            {new(IOADVISE4args), new(IOADVISE4res)},
	OP_LAYOUTERROR:          {new(LAYOUTERROR4args), new(LAYOUTERROR4res)},
	OP_LAYOUTSTATS:          {new(LAYOUTSTATS4args), new(LAYOUTSTATS4res)},
	OP_OFFLOAD_CANCEL:       {new(OFFLOADCANCEL4args), new(OFFLOADCANCEL4res)},
	OP_OFFLOAD_STATUS:       {new(OFFLOADSTATUS4args), new(OFFLOADSTATUS4res)},
	OP_READ_PLUS:            {new(READPLUS4args), new(READPLUS4res)},
	OP_SEEK:                 {new(SEEK4args), new(SEEK4res)},
	OP_WRITE_SAME:           {new(WRITESAME4args), new(WRITESAME4res)},
	OP_CLONE:                {new(CLONE4args), new(CLONE4res)},
	OP_GETXATTR:             {new(GETXATTR4args), new(GETXATTR4res)},
	OP_SETXATTR:             {new(SETXATTR4args), new(SETXATTR4res)},
	OP_LISTXATTRS:           {new(LISTXATTRS4args), new(LISTXATTRS4res)},
	OP_REMOVEXATTR:          {new(REMOVEXATTR4args), new(REMOVEXATTR4res)},
	OP_ILLEGAL:              {new(ILLEGAL4args), new(ILLEGAL4res)},
}

var callbacks = map[NfsCbOpnum4][2]xdr.Type{
	OP_CB_GETATTR:              {new(CBGETATTR4args), new(CBGETATTR4res)},
	OP_CB_RECALL:               {new(CBRECALL4args), new(CBRECALL4res)},
	OP_CB_LAYOUTRECALL:         {new(CBLAYOUTRECALL4args), new(CBLAYOUTRECALL4res)},
	OP_CB_NOTIFY:               {new(CBNOTIFY4args), new(CBNOTIFY4res)},
	OP_CB_PUSH_DELEG:           {new(CBPUSHDELEG4args), new(CBPUSHDELEG4res)},
	OP_CB_RECALL_ANY:           {new(CBRECALLANY4args), new(CBRECALLANY4res)},
	OP_CB_RECALLABLE_OBJ_AVAIL: {new(CBRECALLABLEOBJAVAIL4args), new(CBRECALLABLEOBJAVAIL4res)},
	OP_CB_RECALL_SLOT:          {new(CBRECALLSLOT4args), new(CBRECALLSLOT4res)},
	OP_CB_SEQUENCE:             {new(CBSEQUENCE4args), new(CBSEQUENCE4res)},
	OP_CB_WANTS_CANCELLED:      {new(CBWANTSCANCELLED4args), new(CBWANTSCANCELLED4res)},
	OP_CB_NOTIFY_LOCK:          {new(CBNOTIFYLOCK4args), new(CBNOTIFYLOCK4res)},
	OP_CB_NOTIFY_DEVICEID:      {new(CBNOTIFYDEVICEID4args), new(CBNOTIFYDEVICEID4res)},
	OP_CB_OFFLOAD:              {new(CBOFFLOAD4args), new(CBOFFLOAD4res)},
	OP_CB_ILLEGAL:              {new(CBILLEGAL4args), new(CBILLEGAL4res)},
}

// TestOperations: numbers run without a gap, and the results of every
// operation can carry an error and nothing else, but for SETATTR's attrsset.
func TestOperations(t *testing.T) {
	for op := range OP_REMOVEXATTR + 1 {
		if _, ok := operations[op]; ok != (op >= OP_ACCESS) {
			t.Errorf("operation %v in the table: %v", op, ok)
		}
	}
	for op := range OP_CB_OFFLOAD + 1 {
		if _, ok := callbacks[op]; ok != (op >= OP_CB_GETATTR) {
			t.Errorf("callback %v in the table: %v", op, ok)
		}
	}
	check := func(name string, res xdr.Type) {
		wire := ` 00002728 `
		if name == "OP_SETATTR" || name == "offload_info4" {
			wire += ` 00000000 `
		}
		xdrtest.RoundTrip(t, func() xdrtest.Type { return res }, xdrtest.Wire(t, wire))
		var d xdr.Decoder
		d.Reset(xdrtest.Wire(t, wire))
		if res.Decode(&d); d.Err() != nil || d.Len() != 0 {
			t.Errorf("%s: an error as its result: %d bytes left, error %v", name, d.Len(), d.Err())
		}
	}
	for op, v := range operations {
		check(op.String(), v[1])
	}
	for op, v := range callbacks {
		check(op.String(), v[1])
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		prog, vers, proc uint32
		want             string
	}{
		{100003, 4, 0, "NULL"}, {100003, 4, 1, "COMPOUND"}, {100003, 4, 2, ""}, {100003, 3, 1, ""},
		{0x40000000, 1, 0, "NULL"}, {0x40000000, 1, 1, "COMPOUND"}, {0x40000000, 4, 1, ""},
	} {
		if got := ProcName(c.prog, c.vers, c.proc); got != c.want {
			t.Errorf("program %#x, version %d, procedure %d is called %q, want %q", c.prog, c.vers, c.proc, got, c.want)
		}
	}
	for v, want := range map[Nfsstat4]string{NFS4_OK: "NFS4_OK", 10096: "NFS4ERR_XATTR2BIG", 10073: "Nfsstat4(10073)"} {
		if got := v.String(); got != want {
			t.Errorf("status %d is called %q, want %q", int32(v), got, want)
		}
	}
	for v, want := range map[NfsOpnum4]string{53: "OP_SEQUENCE", 75: "OP_REMOVEXATTR", 10044: "OP_ILLEGAL", 76: "NfsOpnum4(76)"} {
		if got := v.String(); got != want {
			t.Errorf("operation %d is called %q, want %q", int32(v), got, want)
		}
	}
}
