// Limits that can be changed while the server runs. Each is a key of the
// configuration; a choice made at run time lies over it (choices.go).

package server

import (
	"fmt"
	"slices"
	"strings"

	"sluice/pkg/admin"
	"sluice/pkg/dataio"
	"sluice/rpc"
)

// limit is one of them: a row of limitTable.
type limit struct {
	name     string // the key
	unit     string
	min, max int  // in that unit
	auto     bool // 0 is allowed as well, and stands for a value that the server finds
	at       string
	of       func(*Config) *int
}

// minPool is the least that a pool of buffers may hold, in MiB.
const minPool = dataio.MaxMaxIO >> 20

var limitTable = []limit{
	{"splice-min", "bytes", -1, 1 << 30, true, "smaller READs are copied; -1 splices none", func(c *Config) *int { return &c.SpliceMin }},
	{"buffer-pool", "MiB", 2 * minPool, 1 << 20, false, "READs that are copied wait for a buffer, for 1 s at most; then clients are told to try again",
		func(c *Config) *int { return &c.BufferPool }},
	{"direct-pool", "MiB", minPool, 1 << 20, true, "direct READs and WRITEs wait for a buffer, for 20 ms at most; then they use the page cache",
		func(c *Config) *int { return &c.DirectPool }},
	{"slow-threads", "threads", 1, 4096, false, "calls that may sleep wait for a thread", func(c *Config) *int { return &c.SlowThreads }},
	{"max-in-flight", "calls", 1, 1 << 16, false, "the connection is not read until half are answered", func(c *Config) *int { return &c.MaxInFlight }},
	{"max-queued", "KiB", 64, 1 << 20, false, "the connection is not read until its client has taken half", func(c *Config) *int { return &c.MaxQueued }},
}

func findLimit(name string) *limit {
	i := slices.IndexFunc(limitTable, func(l limit) bool { return l.name == name })
	if i < 0 {
		return nil
	}
	return &limitTable[i]
}

func limitNames() string {
	var names []string
	for i := range limitTable {
		names = append(names, limitTable[i].name)
	}
	return strings.Join(names, ", ")
}

// check tells whether a value is within the limit's own bounds.
func (l *limit) check(v int) error {
	if l.auto && v == 0 || v >= l.min && v <= l.max {
		return nil
	}
	also := ""
	if l.auto && l.min > 0 {
		also = "0, or "
	}
	return fmt.Errorf("%s is %d; it must be %sfrom %d to %d %s", l.name, v, also, l.min, l.max, l.unit)
}

// checkPools holds the two pools to their sum.
func (c *Config) checkPools() error {
	if c.DirectPool > c.BufferPool-minPool {
		return fmt.Errorf("direct-pool is %d MiB; it is a part of buffer-pool, which is %d MiB, and must leave %d MiB for replies that are copied: raise buffer-pool first",
			c.DirectPool, c.BufferPool, minPool)
	}
	return nil
}

// inForce is what a configured value comes to.
func (l *limit) inForce(c *Config) int {
	v := *l.of(c)
	switch {
	case v != 0 || !l.auto:
		return v
	case l.name == "direct-pool":
		return c.BufferPool / 2
	}
	return dataio.DefaultSpliceMin
}

// pools returns the sizes of the two pools of buffers, in bytes.
func (c *Config) pools() (plain, direct int) {
	direct = findLimit("direct-pool").inForce(c)
	return (c.BufferPool - direct) << 20, direct << 20
}

// queuedTotal is how many bytes of replies may wait for clients: buffers must
// be left for the others.
func (c *Config) queuedTotal() int64 { return int64(c.BufferPool) << 20 / 4 }

// chosen is the configuration with the choices over it; choices.mu is held, or
// nobody else there yet.
func (s *Server) chosen() *Config {
	c := s.cfg
	for name, v := range s.choices.limits {
		*findLimit(name).of(&c) = v
	}
	return &c
}

// applyLimits puts the limits of c into force.
func (s *Server) applyLimits(c *Config) {
	s.engine.SetSpliceMin(c.SpliceMin)
	s.engine.SetBufferBytes(c.pools())
	s.rpc.SetLimits(rpc.Limits{SlowThreads: c.SlowThreads, MaxInFlight: c.MaxInFlight, MaxQueuedPerConn: c.MaxQueued << 10, MaxQueuedTotal: c.queuedTotal()})
}

func (b backend) Limits() []admin.Limit {
	b.choices.mu.Lock()
	defer b.choices.mu.Unlock()
	return b.limits()
}

func (b backend) limits() []admin.Limit {
	list := []admin.Limit{}
	now, configured, defaults := b.chosen(), b.cfg, Defaults()
	defaults.BufferPool = now.BufferPool // of which direct-pool is half
	for i := range limitTable {
		l := &limitTable[i]
		x := admin.Limit{Name: l.name, Value: l.inForce(now), Configured: l.inForce(&configured), Default: l.inForce(&defaults), Min: l.min, Max: l.max, Unit: l.unit, At: l.at}
		if l.name == "buffer-pool" {
			x.Default = Defaults().BufferPool
		}
		if v, ok := b.choices.kept.Limits[l.name]; ok {
			x.Persisted = &v
		}
		list = append(list, x)
	}
	return list
}

func (b backend) SetLimit(change admin.LimitChange) ([]admin.Limit, error) {
	l := findLimit(change.Name)
	if l == nil {
		return nil, fmt.Errorf("no such limit: %q; the limits are %s", change.Name, limitNames())
	}
	ch := &b.choices
	ch.mu.Lock()
	defer ch.mu.Unlock()
	was, had := ch.limits[l.name]
	restore := func() {
		if delete(ch.limits, l.name); had {
			ch.limits[l.name] = was
		}
	}
	if delete(ch.limits, l.name); change.Value != nil {
		if err := l.check(*change.Value); err != nil {
			restore()
			return nil, err
		}
		ch.limits[l.name] = *change.Value
	}
	c := b.chosen()
	if err := c.checkPools(); err != nil {
		restore()
		return nil, err
	}
	if change.Persist {
		next := ch.kept.clone()
		if delete(next.Limits, l.name); change.Value != nil {
			if next.Limits == nil {
				next.Limits = map[string]int{}
			}
			next.Limits[l.name] = *change.Value
		}
		if err := ch.keep(next); err != nil {
			restore()
			return nil, err
		}
	}
	b.applyLimits(c)
	line := b.log.Info().Str("limit", l.name).Int("value", l.inForce(c)).Str("unit", l.unit).Bool("persisted", change.Persist)
	if change.Value == nil {
		line = line.Bool("as_configured", true)
	}
	line.Msg("limit set")
	if change.Persist && change.Value != nil && b.cfg.FromFlags[l.name] {
		b.log.Warn().Msg(hiddenBy(l.name))
	}
	return b.limits(), nil
}
