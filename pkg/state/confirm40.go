// 4.0 client records: SETCLIENTID, SETCLIENTID_CONFIRM, RENEW (RFC 7530 16.33, 16.34, 16.29).
//
// In the RFC's letters a record is { v, x, c, k, s }: verifier, id string, client id, callback, confirm verifier.

package state

// SetClientID makes an unconfirmed record. ErrClientInUse: somebody else holds state under this name.
func (s *State) SetClientID(call *Call, a *SetClientIDArgs) (SetClientIDRes, error) {
	if len(a.ID) > MaxOwner {
		return SetClientIDRes{}, ErrInval
	}
	now := s.enter()
	defer s.leave()
	conf := s.confirmed[string(a.ID)]
	// Linux refuses another principal only while there is state to lose; so does RFC 7530 16.33.5 ("if the lease has
	// expired or there is no state").
	if conf != nil && conf.hasState() && !conf.expired(now) && (conf.minor != 0 || conf.cred != call.Principal) {
		return SetClientIDRes{Holder: conf.cb}, ErrClientInUse
	}
	if u := s.unconfirmed[string(a.ID)]; u != nil { // cases 3, 4: whatever is unconfirmed is replaced
		s.dropUnconfirmed(u)
	}
	c := s.newClient(now, a.ID, 0, a.Verifier, call)
	if c == nil {
		return SetClientIDRes{}, ErrDelay
	}
	c.cb = a.Callback
	c.confirm = randomVerifier()
	if conf != nil && conf.minor == 0 && conf.verifier == a.Verifier && conf.cred == call.Principal {
		c.id = conf.id // case 2: a callback update keeps the client id and all state
	} else {
		c.id = s.newID() // cases 1, 5 (a new client), 3 (a restarted one)
		s.clients[c.id] = c
	}
	s.fileUnconfirmed(c)
	return SetClientIDRes{ClientID: c.id, Confirm: c.confirm}, nil
}

// SetClientIDConfirm confirms a record. When the client has restarted, the state of its last life goes; that needs a call
// that may block.
func (s *State) SetClientIDConfirm(call *Call, id ClientID, confirm Verifier) error {
	for {
		old, err := s.confirm40(call, id, confirm)
		if old == nil {
			return err
		}
		if err := s.replace(old, call, endRestart); err != nil {
			return err
		}
	}
}

// confirm40 gives a record that must go first, if there is one.
func (s *State) confirm40(call *Call, id ClientID, confirm Verifier) (old *Client, err error) {
	now := s.enter()
	defer s.leave()
	conf, unconf := s.find(id)
	if conf != nil && conf.minor != 0 || unconf != nil && unconf.minor != 0 {
		return nil, ErrStaleClientID
	}
	if unconf != nil && unconf.cred != call.Principal || conf != nil && conf.cred != call.Principal {
		return nil, ErrClientInUse
	}
	if unconf == nil || unconf.confirm != confirm {
		if conf != nil && conf.confirm == confirm { // case 2: a retransmission
			conf.renew(now)
			return nil, nil
		}
		return nil, ErrStaleClientID // case 4; also for a client of this start that is no more, as in Linux
	}
	if conf != nil { // case 1: a callback update
		s.dropUnconfirmed(unconf)
		conf.cb, conf.confirm = unconf.cb, confirm
		conf.renew(now)
		s.probe(conf)
		return nil, nil
	}
	if old := s.confirmed[unconf.owner]; old != nil { // case 3, after a restart of the client
		if old.hasState() && !old.expired(now) && old.cred != unconf.cred {
			return nil, ErrClientInUse
		}
		return old, nil
	}
	s.confirmClient(unconf, now) // case 3
	s.probe(unconf)
	return nil, nil
}

// probe has the callback path tested; delegations wait for the result. The caller holds the lock.
func (s *State) probe(c *Client) {
	if s.cfg.Callbacks == nil {
		return
	}
	c.cbState = cbUnknown
	c.setStatus()
	s.later(func() { s.cfg.Callbacks.Probe(c) })
}

// Renew renews a 4.0 client's lease. ErrCBPathDown: it is renewed, but delegations can't be called back.
func (s *State) Renew(call *Call, id ClientID) error {
	now := s.enter()
	defer s.leave()
	c, err := s.client40(id, now)
	if err != nil {
		return err
	}
	if c.ndelegs > 0 && c.cbState != cbUp { // as Linux: only who has delegations is told
		return ErrCBPathDown
	}
	return nil
}

// SetCallbackPath tells the result of a probe, or that a callback got no answer. A path that comes up gets the recalls
// again that were not answered.
func (s *State) SetCallbackPath(c *Client, up bool) {
	s.enter()
	defer s.leave()
	if c.gone {
		return
	}
	if !up {
		c.cbState = cbDown
	} else {
		c.cbState = cbUp
		for d := range c.recalled {
			if !d.answered {
				s.sendRecall(d)
			}
		}
	}
	c.setStatus()
}

// SetCallbackFault tells that the client's answers on the back channel make no sense (SEQ4_STATUS_BACKCHANNEL_FAULT).
func (s *State) SetCallbackFault(c *Client) {
	s.enter()
	defer s.leave()
	if !c.gone {
		c.cbState = cbFault
		c.setStatus()
	}
}
