// Package state keeps what NFSv4 clients hold on this server: client records, sessions, opens, byte-range locks and
// delegations, with leases, grace and recovery. NLM shares the lock table. It knows no wire types: pkg/nfs4 and pkg/nlm
// translate, one table from Err to status codes.
//
// # The API in two minutes
//
//	dir, err := state.OpenDir(stateDir+"/clients", logf)          // stable storage of client records, locked
//	st, err := state.New(state.Config{Recovery: dir, Callbacks: cb, Local: locker, Leases: leases, ...})
//	st.Tick()                                                     // about once a second; nothing depends on it being exact
//	st.ConnClosed(id)                                             // when a connection ends
//	st.Close()
//
// Every COMPOUND has a Call: minor version, principal, connection, whether it may block. Errors are Err values, compared
// with ==. ErrWouldBlock comes only when !Call.MayBlock, before the operation has had any effect (and then nothing needs
// to be ended): run it again where it may block. Only conflicts with expired clients, records on stable storage, a client's
// restart and CB_GETATTR block; OPEN should run where it may.
//
//	4.0 clients   SetClientID, SetClientIDConfirm, Renew, ReleaseLockOwner
//	4.1 clients   ExchangeID, CreateSession, DestroySession, DestroyClientID, BindConn, BackchannelCtl, ReclaimComplete
//	SEQUENCE      Sequence sets Call.Client. ErrReplay: answer with SequenceRes.Replay. ErrRetryUncached: SEQUENCE succeeds,
//	              the next operation gets RETRY_UNCACHED_REP. After nil, at the COMPOUND's end, always:
//	              SequenceDone(call, reply): the slot keeps a copy if it was asked to; or SequenceUndo(call): it will run again
//	OPEN          OpenBegin (owner, 4.0 seqid, grace) -> the file system's part (CLAIM_DELEGATE_CUR too) -> Open (shares,
//	              delegations of others, the stateid, perhaps a delegation) -> truncation -> OpenUndo if that fails.
//	              OpenConfirm, OpenDowngrade, CloseFile
//	4.0 seqids    OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE, LOCK, LOCKU: err == ErrReplay: answer with Call.Replay() (OPEN
//	              also sets the current file handle to Call.ReplayFH()). In any case, once the result is encoded:
//	              OwnerDone(call, bump, encoded, currentFH). It does nothing for 4.1 and when no owner was found
//	I/O           CheckIO(call, file, stateid, want): READ, WRITE, SETATTR of size, ALLOCATE, COPY... gives IO.Opened for View
//	locks         Lock, TestLock, Unlock (v4); NLMLock, NLMTest, NLMUnlock, NLMCancel, NLMRelease (NLM)
//	delegations   come with OpenRes; DelegReturn; DelegAttrs before GETATTR and VERIFY of size, change or times (CB_GETATTR);
//	              LeaseBroken (from the kernel); RecallDone, DelegAttrsDone, SetCallbackPath, SetCallbackFault (from the
//	              callback client, which gets its work by Config.Callbacks)
//	stateids      TestStateid, FreeStateid. CurrentStateid is the interpreter's to replace before it calls
//	v3, View      st is a Guard: CheckRead, CheckWrite, CheckSetattr, CheckGetattr, CheckNames: one atomic load when nobody
//	              holds anything on the file. Call.ClientID() is the client to pass
//	names in v4   REMOVE, RENAME (not LINK): InGrace() -> GRACE, as Linux
//	callbacks     4.0: Client.Callback. 4.1: Client.BackSession, Session.CBAcquire / CBRelease / CBResync, BackConns, CBSec
//	admin         Clients, Sessions, Opens, Locks, Delegations, Counters, ExpireClient, RevokeFiles, EndGrace
//
// # Choices
//
//   - A client is on stable storage from RECLAIM_COMPLETE on (4.0: from its first OPEN_CONFIRM or reclaim), before the answer:
//     earlier it cannot hold anything that it has not reclaimed. nfsdcld does the same.
//   - A record leaves stable storage before what its client held is given to others, and the end of grace is on stable
//     storage before new state is allowed: a crash in between must not let two clients have the same (RFC 7530 9.6.3.4).
//   - Share denials hold for anonymous I/O of all versions, whoever sends it; in version 3 Linux lets it pass.
//   - OPEN_DOWNGRADE goes to sums of the pairs that were opened, by the RFC's letter; Linux is laxer.
//   - A retry of a slot's request is compared (operations, digest, principal); one of a seqid by its operation.
//
// # Plan
//
// One lock, State.mu, guards everything but four things: slots and connections (Session.mu), lock ranges (a mutex a file,
// so that fcntl runs without State.mu), what 4.0 owners remember of their last request (a turn an owner), and counters
// (atomics). Order: an owner's turn, State.ending, State.record, State.mu, Session.mu, tables' own mutexes; a file's lock mutex is taken
// with none of State's held. No file-system call, callback or fsync is made under State.mu: what must follow a change is
// queued and run by leave.
//
// Leases expire on entry, by an injected clock: a client past its lease is a courtesy client until somebody wants what it
// holds (as in Linux since 5.19); then its record on stable storage goes first and its state second.
package state
