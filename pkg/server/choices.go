// Choices: what an administrator sets while the server runs.
//
// Plan: the configuration lies below (a flag over the file over the default),
// choices lie over it, each for one thing: a mode of the server, of an export or
// of a client, or a limit (limits.go). Taking a choice back lets the
// configuration be seen again. Those made with --persist are in a file as well
// (kept.go), and made again at the next start, but for those that a flag of that
// start is about. dataio.Modes, the engine and rpc hold what is in force.

package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"sluice/pkg/admin"
	"sluice/pkg/dataio"
	"sluice/pkg/trace"
)

const modeList = "buffered, dontcache, direct and auto"

// target is what a mode is for: an export, a client, or the server when both are empty.
type target struct{ export, client string }

func (t target) String() string {
	switch {
	case t.export != "":
		return "export " + t.export
	case t.client != "":
		return "client " + t.client
	}
	return "server"
}

type choices struct {
	file       string
	configured map[target]admin.ModeChoice // the server's is not in it

	mu     sync.Mutex
	modes  map[target]admin.ModeChoice
	limits map[string]int
	kept   kept  // the file's content
	broken error // why the file is not used
}

// modeOf points to the mode of an operation.
func modeOf(m *admin.ModeChoice, op string) *string {
	if op == "write" {
		return &m.Write
	}
	return &m.Read
}

// loadChoices reads what is kept, and puts all modes into force.
func (s *Server) loadChoices() error {
	ch := &s.choices
	ch.file = filepath.Join(s.cfg.State, keptFile)
	ch.configured, ch.modes, ch.limits = s.cfg.Modes.targets(), map[target]admin.ModeChoice{}, map[string]int{}
	for _, t := range append(ordered(ch.configured), target{}) {
		if err := s.applyMode(t); err != nil {
			return fmt.Errorf("modes: %w", err)
		}
	}
	if ch.kept, ch.broken = readKept(ch.file); ch.broken != nil {
		s.log.Warn().Msg("choices are not restored: " + ch.broken.Error())
		return nil
	}
	var done []string
	for _, t := range ch.kept.targets() {
		m := ch.kept.mode(t)
		for _, op := range []string{"read", "write"} {
			word := modeOf(&m, op)
			if key := op + "-mode"; t == (target{}) && *word != "" && s.cfg.FromFlags[key] {
				s.log.Warn().Msg(hiddenBy(key))
				*word = ""
			}
			if *word != "" {
				done = append(done, fmt.Sprintf("%s: %s %s", t, op, *word))
			}
		}
		if m == (admin.ModeChoice{}) {
			continue
		}
		ch.modes[t] = m
		if err := s.applyMode(t); err != nil {
			delete(ch.modes, t)
			s.log.Warn().Msgf("the mode of %s is not restored: %v", t, err)
		}
	}
	for i := range limitTable {
		l := &limitTable[i]
		v, ok := ch.kept.Limits[l.name]
		switch {
		case !ok:
			continue
		case s.cfg.FromFlags[l.name]:
			s.log.Warn().Msg(hiddenBy(l.name))
			continue
		}
		ch.limits[l.name] = v
	}
	if err := s.chosen().checkPools(); err != nil {
		var left []string
		for _, name := range []string{"buffer-pool", "direct-pool"} {
			if _, ok := ch.limits[name]; ok {
				left = append(left, name)
				delete(ch.limits, name)
			}
		}
		s.log.Warn().Msgf("%s not restored: %v", strings.Join(left, ", "), err)
	}
	for i := range limitTable {
		if v, ok := ch.limits[limitTable[i].name]; ok {
			done = append(done, fmt.Sprintf("%s %d", limitTable[i].name, v))
		}
	}
	if len(done) > 0 {
		s.log.Info().Str("file", ch.file).Strs("choices", done).Msg("restored what --persist kept")
	}
	return nil
}

// hiddenBy warns of a flag that wins over a kept choice.
func hiddenBy(key string) string {
	return fmt.Sprintf("the flag --%s hides what --persist kept: leave the flag out, or forget the choice", key)
}

// targets lists whom the file has modes for.
func (k *kept) targets() []target {
	all := map[target]admin.ModeChoice{}
	if k.Modes.Server != (admin.ModeChoice{}) {
		all[target{}] = k.Modes.Server
	}
	for p, m := range k.Modes.Exports {
		all[target{export: p}] = m
	}
	for c, m := range k.Modes.Clients {
		all[target{client: c}] = m
	}
	return ordered(all)
}

// ordered lists targets: the server, exports by path, clients by address.
func ordered(all map[target]admin.ModeChoice) []target {
	list := make([]target, 0, len(all))
	for t := range all {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b target) int {
		if a.client == "" || b.client == "" {
			return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.export, b.export))
		}
		p, _ := dataio.ParseClient(a.client) // names that ClientName made
		q, _ := dataio.ParseClient(b.client)
		return cmp.Or(p.Addr().Compare(q.Addr()), cmp.Compare(p.Bits(), q.Bits()))
	})
	return list
}

// inForce is what the choices and the configuration say of t; "" is the next level's.
func (s *Server) inForce(t target) admin.ModeChoice {
	m, below := s.choices.modes[t], s.choices.configured[t]
	if t == (target{}) {
		below = admin.ModeChoice{Read: s.cfg.ReadMode, Write: s.cfg.WriteMode}
	}
	return admin.ModeChoice{Read: cmp.Or(m.Read, below.Read), Write: cmp.Or(m.Write, below.Write)}
}

// applyMode puts into force what inForce says. It fails, and changes nothing, when there are too many clients.
func (s *Server) applyMode(t target) error {
	m := s.inForce(t)
	read, write := dataio.Default, dataio.Default
	for _, x := range []struct {
		word string
		mode *dataio.Mode
	}{{m.Read, &read}, {m.Write, &write}} {
		if x.word != "" {
			var err error
			if *x.mode, err = dataio.ParseMode(x.word); err != nil {
				return err
			}
		}
	}
	switch {
	case t.client != "":
		p, err := dataio.ParseClient(t.client)
		if err != nil {
			return err
		}
		return s.modes.SetClient(p, read, write)
	case t.export != "":
		s.modes.SetExportRead(t.export, read)
		s.modes.SetExportWrite(t.export, write)
	default:
		s.modes.SetRead(read)
		s.modes.SetWrite(write)
	}
	return nil
}

// keep writes next to the file; ch.mu is held. Nothing has changed when it fails.
func (ch *choices) keep(next kept) error {
	if ch.broken != nil {
		// It may have been mended since.
		k, err := readKept(ch.file)
		if err != nil {
			return &admin.StorageError{Msg: "nothing was set: " + err.Error()}
		}
		ch.broken, ch.kept = nil, k
		return &admin.StorageError{Msg: fmt.Sprintf("nothing was set: %s was not usable at the start and has been mended since; what it holds is known now, set it again", ch.file)}
	}
	if err := next.check(); err != nil {
		return err
	}
	if err := next.write(ch.file); err != nil {
		return &admin.StorageError{Msg: fmt.Sprintf("nothing was set: it can't be kept in %s (%v): make room or the directory writable, or leave --persist out", ch.file, err)}
	}
	ch.kept = next
	return nil
}

// missing lists the exports with modes that aren't exported, with what to do.
func (s *Server) missing() (warnings []string) {
	s.choices.mu.Lock()
	defer s.choices.mu.Unlock()
	for _, t := range ordered(s.allModes()) {
		if t.export == "" || s.ns.Set().Get(t.export) != nil {
			continue
		}
		how := "take it out of modes in the configuration file"
		chosen, kept := s.choices.modes[t], s.choices.kept.mode(t)
		if none := (admin.ModeChoice{}); chosen != none || kept != none {
			op, persist := "read", ""
			if chosen.Read == "" && kept.Read == "" {
				op = "write"
			}
			if kept != none {
				persist = " --persist"
			}
			how = fmt.Sprintf("remove it with `sluice mode %s default --export %s%s`", op, t.export, persist)
		}
		warnings = append(warnings, fmt.Sprintf("a mode is set for %s, which isn't exported: it is kept until that comes back; else %s", t.export, how))
	}
	return warnings
}

// allModes has a key for everything that has modes of its own; choices.mu is held.
func (s *Server) allModes() map[target]admin.ModeChoice {
	all := map[target]admin.ModeChoice{}
	for _, m := range []map[target]admin.ModeChoice{s.choices.configured, s.choices.modes} {
		for t := range m {
			all[t] = admin.ModeChoice{}
		}
	}
	for _, t := range s.choices.kept.targets() {
		all[t] = admin.ModeChoice{}
	}
	delete(all, target{})
	return all
}

func (b backend) IOMode() admin.IOMode {
	b.choices.mu.Lock()
	defer b.choices.mu.Unlock()
	return b.ioMode()
}

func (b backend) ioMode() admin.IOMode {
	none := netip.Addr{}
	m := admin.IOMode{
		Read: b.modes.Read(nil, none).String(), Write: b.modes.Write(nil, none).String(), Persisted: b.choices.kept.Modes.Server,
		Exports: []admin.ExportIOMode{}, Clients: []admin.ClientIOMode{},
	}
	for _, t := range ordered(b.allModes()) {
		now, kept := b.inForce(t), b.choices.kept.mode(t)
		if t.client != "" {
			m.Clients = append(m.Clients, admin.ClientIOMode{Client: t.client, Read: now.Read, Write: now.Write, Persisted: kept})
			continue
		}
		m.Exports = append(m.Exports, admin.ExportIOMode{Path: t.export, Read: now.Read, Write: now.Write, Persisted: kept, Missing: b.ns.Set().Get(t.export) == nil})
	}
	return m
}

// findTarget says what a change is for; choices.mu is held.
func (b backend) findTarget(c *admin.ModeChange, mode dataio.Mode) (t target, err error) {
	switch {
	case c.Export != "" && c.Client != "":
		return t, errors.New("a mode is for an export or for a client, not for both: leave one out")
	case c.Client != "":
		p, err := dataio.ParseClient(c.Client)
		if err != nil {
			return t, err
		}
		return target{client: dataio.ClientName(p)}, nil
	case c.Export == "":
		return t, nil
	}
	if e := b.ns.Set().Get(c.Export); e != nil {
		return target{export: e.Path}, nil
	}
	// What is left of one that went away can be taken back.
	t.export = path.Clean(c.Export)
	if _, known := b.allModes()[t]; known && mode == dataio.Default {
		return t, nil
	}
	return t, &admin.NotFoundError{Msg: fmt.Sprintf("no export at %q; %s", c.Export, b.exportList())}
}

// exportList names the exports, for who misspelt one.
func (b backend) exportList() string {
	const most = 16
	var names []string
	for _, e := range b.ns.Set().Exports() {
		names = append(names, e.Path)
	}
	switch n := len(names); {
	case n == 0:
		return "there are no exports"
	case n > most:
		return fmt.Sprintf("the exports are %s and %d more, see `sluice exports list`", strings.Join(names[:most], ", "), n-most)
	}
	return "the exports are " + strings.Join(names, ", ")
}

func (b backend) SetIOMode(c admin.ModeChange) (admin.IOMode, error) {
	mode, err := dataio.ParseMode(c.Mode)
	if err != nil {
		return admin.IOMode{}, err
	}
	if c.Op != "read" && c.Op != "write" {
		return admin.IOMode{}, fmt.Errorf("op is %q; it must be read or write", c.Op)
	}
	ch := &b.choices
	ch.mu.Lock()
	defer ch.mu.Unlock()
	t, err := b.findTarget(&c, mode)
	if err != nil {
		return admin.IOMode{}, err
	}
	word := ""
	if mode != dataio.Default {
		word = mode.String()
	}
	was := ch.modes[t]
	set := func(m admin.ModeChoice) error {
		if ch.modes[t] = m; m == (admin.ModeChoice{}) {
			delete(ch.modes, t)
		}
		return b.applyMode(t)
	}
	now := was
	*modeOf(&now, c.Op) = word
	if err := set(now); err != nil {
		set(was) //nolint:errcheck // as it was
		return admin.IOMode{}, err
	}
	if c.Persist {
		next, m := ch.kept.clone(), ch.kept.mode(t)
		*modeOf(&m, c.Op) = word
		next.setMode(t, m)
		if err := ch.keep(next); err != nil {
			set(was) //nolint:errcheck // as it was
			return admin.IOMode{}, err
		}
	}
	line := b.log.Info().Str("op", c.Op).Stringer("mode", mode)
	if t.export != "" {
		line = line.Str("export", t.export)
	}
	if t.client != "" {
		line = line.Str("client", t.client)
	}
	if c.Persist {
		line = line.Bool("persisted", true)
	}
	line.Msg("I/O mode set")
	if key := c.Op + "-mode"; c.Persist && word != "" && t == (target{}) && b.cfg.FromFlags[key] {
		b.log.Warn().Msg(hiddenBy(key))
	}
	if b.bus.Enabled() {
		reason := c.Op
		if t.client != "" {
			reason += " of " + t.client
		}
		b.bus.Emit(trace.Event{Name: trace.ModeChange, Export: t.export, Mode: mode.String(), Reason: reason})
	}
	return b.ioMode(), nil
}

func (b backend) Choices() admin.Choices {
	ch := &b.choices
	ch.mu.Lock()
	defer ch.mu.Unlock()
	c := admin.Choices{File: ch.file, Modes: []admin.KeptMode{}, Limits: []admin.KeptLimit{}}
	if ch.broken != nil {
		c.Problem = ch.broken.Error()
	}
	for _, t := range ch.kept.targets() {
		m := ch.kept.mode(t)
		c.Modes = append(c.Modes, admin.KeptMode{Export: t.export, Client: t.client, Read: m.Read, Write: m.Write, Missing: t.export != "" && b.ns.Set().Get(t.export) == nil})
	}
	for i := range limitTable {
		if v, ok := ch.kept.Limits[limitTable[i].name]; ok {
			c.Limits = append(c.Limits, admin.KeptLimit{Name: limitTable[i].name, Value: v, Unit: limitTable[i].unit})
		}
	}
	return c
}

func (b backend) ForgetChoices() (admin.Choices, error) {
	ch := &b.choices
	ch.mu.Lock()
	var none kept
	err := none.write(ch.file)
	if err == nil {
		ch.kept, ch.broken = none, nil
	}
	ch.mu.Unlock()
	if err != nil {
		return admin.Choices{}, &admin.StorageError{Msg: fmt.Sprintf("%s can't be removed (%v): make its directory writable, or remove it by hand", ch.file, err)}
	}
	b.log.Info().Str("file", ch.file).Msg("forgot what --persist kept; what is in force stays until the end")
	return b.Choices(), nil
}

// CheckMode tells what is wrong with a mode's name, "default" being one too,
// before the server is asked.
func CheckMode(word string) error {
	_, err := dataio.ParseMode(word)
	return err
}

// CheckClient is the same for a client: an address or a network.
func CheckClient(word string) error {
	_, err := dataio.ParseClient(word)
	return err
}
