// 4.1 client records: EXCHANGE_ID (RFC 8881 18.35), DESTROY_CLIENTID (18.50). The case numbers are those of 18.35.4.

package state

// ExchangeID finds or makes a record. ErrClientInUse: another principal holds state under this name.
func (s *State) ExchangeID(call *Call, a *ExchangeIDArgs) (ExchangeIDRes, error) {
	if a.Flags&^flagsExchangeIDClient != 0 || len(a.Owner) > MaxOwner {
		return ExchangeIDRes{}, ErrInval
	}
	switch a.Protect {
	case ProtectNone:
	case ProtectMachCred: // RFC 8881 18.35.3: only for those who come with RPCSEC_GSS and integrity
		if !call.Integrity {
			return ExchangeIDRes{}, ErrInval
		}
	case ProtectSSV:
		return ExchangeIDRes{}, ErrEncrAlg // as Linux: no SSV
	default:
		return ExchangeIDRes{}, ErrInval
	}
	for {
		res, old, err := s.exchangeID(call, a)
		if old == nil {
			return res, err
		}
		if err := s.replace(old, call, endRestart); err != nil {
			return ExchangeIDRes{}, err
		}
	}
}

// exchangeID gives a record that must go first, if there is one.
func (s *State) exchangeID(call *Call, a *ExchangeIDArgs) (res ExchangeIDRes, old *Client, err error) {
	now := s.enter()
	defer s.leave()
	conf := s.confirmed[string(a.Owner)]
	if conf != nil && conf.expiring.Load() {
		return res, nil, ErrDelay
	}
	update := a.Flags&FlagUpdConfirmedRecA != 0
	if conf != nil {
		same := conf.verifier == a.Verifier
		switch {
		case update && conf.minor == 0:
			return res, nil, ErrInval // a client that updates what it never made
		case update && conf.machCred && !call.Integrity:
			return res, nil, ErrWrongCred
		case update && conf.cred != call.Principal:
			return res, nil, ErrPerm // case 9
		case update && !same:
			return res, nil, ErrNotSame // case 8
		case update: // case 6
			conf.impl = a.ImplName
			return conf.exchanged(a, true), nil, nil
		case conf.cred != call.Principal: // case 3
			if conf.hasState() && !conf.expired(now) {
				return res, nil, ErrClientInUse
			}
			return res, conf, nil
		case same && conf.minor != 0: // case 2
			return conf.exchanged(a, true), nil, nil
		}
		// Case 5: the client has restarted. Its old state stays until the new record is confirmed. A 4.0 record of the
		// same name is taken for the client's earlier life (RFC 8881 2.4.1).
	} else if update {
		return res, nil, ErrNoEnt // case 7
	}
	if u := s.unconfirmed[string(a.Owner)]; u != nil {
		s.dropUnconfirmed(u) // case 4
	}
	c := s.newClient(now, a.Owner, 1, a.Verifier, call) // case 1
	if c == nil {
		return res, nil, ErrDelay
	}
	c.id = s.newID()
	c.machCred = a.Protect == ProtectMachCred
	c.impl = a.ImplName
	s.clients[c.id] = c
	s.fileUnconfirmed(c)
	return c.exchanged(a, false), nil, nil
}

func (c *Client) exchanged(a *ExchangeIDArgs, confirmed bool) ExchangeIDRes {
	// No pNFS, no migration: of what a client may ask for only binding of principals is confirmed, and that is not
	// offered either (as Linux).
	res := ExchangeIDRes{ClientID: c.id, Sequence: c.create.seq + 1, Flags: FlagUseNonPNFS}
	if confirmed {
		res.Flags |= FlagConfirmedR
	}
	if c.machCred {
		res.Protect = ProtectMachCred
	}
	return res
}

// DestroyClientID drops a record that holds nothing. ErrClientIDBusy: it has sessions or state.
func (s *State) DestroyClientID(call *Call, id ClientID) error {
	old, err := s.destroyClientID(call, id)
	if old == nil {
		return err
	}
	return s.replace(old, call, endDestroyed)
}

func (s *State) destroyClientID(call *Call, id ClientID) (old *Client, err error) {
	s.enter()
	defer s.leave()
	conf, unconf := s.find(id)
	switch {
	case conf != nil && conf.minor != 0:
		if conf.machCred && !call.Integrity {
			return nil, ErrWrongCred
		}
		if conf.hasState() {
			return nil, ErrClientIDBusy
		}
		return conf, nil
	case conf == nil && unconf != nil && unconf.minor != 0:
		s.dropUnconfirmed(unconf)
		return nil, nil
	}
	return nil, ErrStaleClientID
}
