package octavia

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"proxylab/lab/lbaas/plane"
)

// formatVersion is that of the stored state.
const formatVersion = 1

// stored is the state as a Store keeps it.
type stored struct {
	Version    int                       `json:"version"`
	Objects    []*object                 `json:"objects"`
	Quotas     map[string]map[string]int `json:"quotas,omitempty"`
	Operations []Operation               `json:"operations,omitempty"`
	Applied    []plane.Balancer          `json:"applied,omitempty"`
	Forced     map[string]string         `json:"forced,omitempty"`
}

// snapshot gives the state to be written. The lock is held for the pointers only: objects do not change.
func (s *Service) snapshot() ([]byte, error) {
	s.mu.Lock()
	all := stored{Version: formatVersion, Quotas: map[string]map[string]int{}, Forced: maps.Clone(s.forced)}
	for _, byID := range s.db.kinds {
		for _, o := range byID {
			all.Objects = append(all.Objects, o)
		}
	}
	for project, q := range s.quotas {
		all.Quotas[project] = maps.Clone(q)
	}
	for _, p := range s.ops {
		all.Operations = append(all.Operations, p.Operation)
	}
	all.Applied = s.inOrder(s.applied)
	s.mu.Unlock()
	slices.SortFunc(all.Objects, bySeq)
	slices.SortFunc(all.Operations, func(a, b Operation) int { return bytes.Compare([]byte(a.Balancer), []byte(b.Balancer)) })
	return json.Marshal(all)
}

// load takes the state that the store has.
func (s *Service) load() error {
	if s.opts.Store == nil {
		return nil
	}
	data, err := s.opts.Store.Load()
	if err != nil {
		return fmt.Errorf("octavia: state: %w", err)
	}
	if len(data) == 0 {
		return nil
	}
	var all stored
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return fmt.Errorf("octavia: state: %w", err)
	}
	if all.Version != formatVersion {
		return fmt.Errorf("octavia: state of version %d: have %d", all.Version, formatVersion)
	}
	return s.take(all)
}

func (s *Service) take(all stored) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(all.Objects, bySeq)
	for _, o := range all.Objects {
		if s.kinds[o.Kind] == nil || o.ID == "" {
			return fmt.Errorf("octavia: state: %q is no kind of object (%s)", o.Kind, o.ID)
		}
		if o.Parent != "" && s.db.any(o.Parent) == nil {
			return fmt.Errorf("octavia: state: %s %s is below %s, which is not there", o.Kind, o.ID, o.Parent)
		}
		if o.Kind == kindBalancer && len(o.VIPs) == 0 {
			return fmt.Errorf("octavia: state: %s %s has no VIP", o.Kind, o.ID)
		}
		for name, v := range o.Attrs {
			o.Attrs[name] = restore(v)
		}
		s.db.add(o)
	}
	maps.Copy(s.quotas, all.Quotas)
	maps.Copy(s.forced, all.Forced)
	for _, b := range all.Applied {
		s.applied[b.ID] = b
	}
	for _, op := range all.Operations {
		if s.db.get(kindBalancer, op.Balancer) != nil {
			s.ops[op.Balancer] = &pending{Operation: op}
		}
	}
	return nil
}

// dirty says that there is something to write.
func (s *Service) dirty() { s.saver.mark() }
