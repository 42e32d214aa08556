// Files that somebody has open or delegated, and the sums over their opens that make a share check cheap.

package state

// file is a file with opens or delegations. Fields under State.mu.
type file struct {
	s      *State
	key    FileKey
	opens  map[*openState]struct{}
	access [2]int // opens that read, that write
	deny   [2]int // opens that deny reading, writing
	delegs []*deleg

	hadConflict bool      // a delegation was recalled: no more of them while the file is known (as Linux)
	lease       DelegType // what Leases was asked for
	weak        bool      // and then told to weaken
	leasing     bool      // Leases.Acquire is under way
	breaks      uint64    // conflicts so far: an acquisition that saw one come gives up
	counted     bool      // in State.interest
}

// getFile finds or makes a file.
func (s *State) getFile(key *FileKey) *file {
	f := s.files[*key]
	if f == nil {
		f = &file{s: s, key: *key, opens: map[*openState]struct{}{}}
		s.files[*key] = f
	}
	return f
}

// changed brings what depends on the file's opens and delegations up to date; the file goes when nothing is left.
func (f *file) changed() {
	if f.access[0] < 0 || f.access[1] < 0 || f.deny[0] < 0 || f.deny[1] < 0 {
		panic("state: share counts below zero")
	}
	if want := f.deny[0] > 0 || f.deny[1] > 0 || len(f.delegs) > 0 || f.leasing; want != f.counted {
		f.counted = want
		n := int32(-1)
		if want {
			n = 1
		}
		f.s.interest[f.s.hash(&f.key)%interestSlots].Add(n)
	}
	if len(f.delegs) == 0 && f.lease != DelegNone && !f.leasing {
		f.lease = DelegNone
		f.s.later(func() { f.s.cfg.Leases.Release(f.key) })
	}
	if len(f.opens) == 0 && len(f.delegs) == 0 && !f.leasing && f.s.files[f.key] == f {
		delete(f.s.files, f.key)
	}
}

// share adds an open's bits to the sums, or takes them away.
func (f *file) share(access, deny uint8, n int) {
	for i := range 2 {
		if access>>i&1 != 0 {
			f.access[i] += n
		}
		if deny>>i&1 != 0 {
			f.deny[i] += n
		}
	}
}

// conflicts tells whether a new share would meet one that is there. The owner's own count too (RFC 8881 9.7: "no exception
// for an existing OPEN for the same open-owner"; Linux).
func (f *file) conflicts(access, deny uint8) bool {
	for i := range 2 {
		if access>>i&1 != 0 && f.deny[i] > 0 || deny>>i&1 != 0 && f.access[i] > 0 {
			return true
		}
	}
	return false
}

// expiredHolders lists the clients whose opens a share meets, if all of them are expired; else nothing.
func (f *file) expiredHolders(access, deny uint8, now int64) []*Client {
	seen := map[*Client]bool{}
	var list []*Client
	for o := range f.opens {
		if access&o.deny == 0 && deny&o.access == 0 || seen[o.client] {
			continue
		}
		if !o.client.expired(now) {
			return nil
		}
		seen[o.client] = true
		list = append(list, o.client)
	}
	return list
}
