// Package state keeps what NFSv4 clients hold on this server: client records, sessions, opens, byte-range locks and
// delegations, with leases, grace and recovery. NLM shares the lock table. It knows no wire types: pkg/nfs4 and pkg/nlm
// translate, one table from Err to status codes.
//
// # The API in two minutes
//
//	st, err := state.New(state.Config{Recovery: dir, Callbacks: cb, Local: locker, Leases: leases, ...})
//	st.Tick()                     // about once a second; nothing depends on it being exact
//	st.Close()
//
// Every COMPOUND has a Call: minor version, principal, connection, whether it may block. Errors are Err values, compared
// with ==. ErrWouldBlock comes only when !Call.MayBlock, before any effect: run the operation again on the slow pool.
//
//	4.0 clients   SetClientID, SetClientIDConfirm, Renew, ReleaseLockOwner
//	4.1 clients   ExchangeID, CreateSession, DestroySession, DestroyClientID, BindConn, BackchannelCtl, ReclaimComplete
//	SEQUENCE      Sequence sets Call.Client; a replay comes back in SequenceRes.Replay. At the COMPOUND's end, always:
//	              SequenceDone(call, reply): the slot keeps a copy if it was asked to
//	OPEN          OpenBegin (owner, 4.0 seqid, grace) -> the file system's part -> Open (shares, delegations) ->
//	              perhaps OpenUndo. OpenConfirm, OpenDowngrade, CloseFile
//	4.0 seqids    OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE, LOCK, LOCKU: err == ErrReplay: answer with Call.Replay().
//	              Otherwise, once the result is encoded, always: OwnerDone(call, bump, encoded). No-op for 4.1
//	I/O           CheckIO(call, file, stateid, want): READ, WRITE, SETATTR of size, ALLOCATE, COPY...
//	locks         Lock, TestLock, Unlock (v4); NLMLock, NLMTest, NLMUnlock, NLMCancel, NLMRelease (NLM)
//	delegations   come with OpenRes; DelegReturn, DelegAttrs (CB_GETATTR); LeaseBroken (from the kernel);
//	              RecallDone, SetCallbackPath (from the callback client)
//	stateids      TestStateid, FreeStateid; CurrentStateid is the interpreter's to substitute
//	v3, View      st is a Guard: CheckRead, CheckWrite, CheckSetattr, CheckOpen, CheckRemove... one atomic load when nobody
//	              holds anything on the file
//	callbacks     Session.CBAcquire / CBRelease: backchannel slots; Session.BackConns
//	grace         InGrace, EndGrace
//	admin         Clients, Sessions, Opens, Locks, Delegations, ExpireClient, Counters
//
// # Plan
//
// One lock, State.mu, guards everything but three things: slots (Session.mu), lock ranges (a shard of LockTable, so that
// fcntl runs without State.mu), and the Guard's counters (atomics). No file-system call, callback or fsync is made under
// State.mu: what must follow a change is queued and run by leave. Leases expire on entry, by an injected clock: a client
// past its lease is a courtesy client until somebody wants what it holds (as in Linux since 5.19), then its record on
// stable storage goes first and its state second.
package state
