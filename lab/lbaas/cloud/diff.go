package cloud

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// have is what the API has of a balancer, as far as a Service is concerned.
type have struct {
	Balancer  haveBalancer
	Listeners []haveListener // all of the balancer's
	Pools     []havePool     // all of the balancer's; members and monitors are read of those that concern the Service
}

// step is one write, or those that make one thing whole.
type step struct {
	Kind     kind
	ID       string        // of what is changed or deleted; of the listener or pool that something is made for
	Name     string        // for people
	Why      string        // "" for what was never there
	Patch    patch         // what is changed
	Listener *wantListener // what is made
	Pool     *wantPool
	Monitor  *wantMonitor
	Members  *memberChange
}

type kind string

const (
	createListener kind = "create listener"
	updateListener kind = "update listener"
	deleteListener kind = "delete listener"
	createPool     kind = "create pool"  // for a listener that has none
	replacePool    kind = "replace pool" // of a listener, without a moment of having none
	updatePool     kind = "update pool"
	deletePool     kind = "delete pool"
	setMembers     kind = "set members of pool"
	createMonitor  kind = "create health monitor of pool"
	updateMonitor  kind = "update health monitor of pool"
	deleteMonitor  kind = "delete health monitor of pool"
	updateBalancer kind = "update load balancer"
)

// String is for events and logs.
func (s step) String() string {
	text := string(s.Kind) + " " + s.Name
	if s.Members != nil {
		text += s.Members.String()
	}
	if len(s.Patch) > 0 {
		text += ": " + strings.Join(slices.Sorted(maps.Keys(s.Patch)), ", ")
	}
	if s.Why != "" {
		text += " (" + s.Why + ")"
	}
	return text
}

// portConflict is a listener of somebody else where one is wanted.
type portConflict struct {
	Listener wantListener
	Other    haveListener
}

func (c portConflict) Error() string {
	return fmt.Sprintf("port %d/%s of the load balancer belongs to listener %s (%s)", c.Listener.Port, c.Listener.Protocol, c.Other.Name, c.Other.ID)
}

// diff is the writes that turn what there is into what is wanted, in their order: what goes makes room for what comes.
// Nothing of another Service is touched; where that is in the way, diff says so.
func diff(w want, h have) ([]step, error) {
	base := w.Balancer.Name
	var steps []step
	if p := diffBalancer(w.Balancer, h.Balancer); len(p) > 0 {
		// The tag comes first: who has one keeps the balancer alive.
		steps = append(steps, step{Kind: updateBalancer, ID: h.Balancer.ID, Name: h.Balancer.Name, Patch: p})
	}
	byPort := map[string]haveListener{}
	for _, l := range h.Listeners {
		byPort[socket(l.Protocol, l.Port)] = l
	}
	wantedPorts := map[string]wantListener{}
	for _, l := range w.Listeners {
		wantedPorts[socket(l.Protocol, l.Port)] = l
	}
	used := map[string]bool{}
	for _, l := range h.Listeners {
		wl, ok := wantedPorts[socket(l.Protocol, l.Port)]
		switch {
		case !ownListener(l, base):
			if ok {
				return nil, portConflict{wl, l}
			}
			used[l.DefaultPoolID] = true
		case !ok:
			steps = append(steps, step{Kind: deleteListener, ID: l.ID, Name: portName(l.wantListener), Why: "no port of the Service"})
		case l.Protocol != wl.Protocol:
			steps = append(steps, step{Kind: deleteListener, ID: l.ID, Name: portName(l.wantListener), Why: "its protocol is to be " + wl.Protocol})
		default:
			used[l.DefaultPoolID] = true
		}
	}
	for _, p := range h.Pools {
		if isPartOf(p.Name, "pool", base) && !used[p.ID] {
			steps = append(steps, step{Kind: deletePool, ID: p.ID, Name: p.Name, Why: "no listener uses it"})
		}
	}
	for _, wl := range w.Listeners {
		l, ok := byPort[socket(wl.Protocol, wl.Port)]
		if !ok || l.Protocol != wl.Protocol {
			steps = append(steps, step{Kind: createListener, Name: portName(wl), Listener: &wl})
			continue
		}
		steps = append(steps, diffListener(wl, l, h.Pools)...)
	}
	return steps, nil
}

// socket is what two listeners of a balancer cannot share: HTTP and TLS are TCP.
func socket(protocol string, port int) string {
	if protocol != "UDP" && protocol != "SCTP" {
		protocol = "TCP"
	}
	return fmt.Sprintf("%s/%d", protocol, port)
}

func portName(l wantListener) string { return fmt.Sprintf("%d/%s", l.Port, l.Protocol) }

// ownListener goes by the tag, and by the name where there are no tags or somebody took it away.
func ownListener(l haveListener, base string) bool {
	return slices.Contains(l.Tags, base) || isPartOf(l.Name, "listener", base)
}

func diffListener(w wantListener, h haveListener, pools []havePool) []step {
	p := patch{}
	p.set("connection_limit", w.ConnectionLimit, h.ConnectionLimit)
	p.setInt("timeout_client_data", w.ClientData, h.ClientData)
	p.setInt("timeout_member_connect", w.MemberConnect, h.MemberConnect)
	p.setInt("timeout_member_data", w.MemberData, h.MemberData)
	p.setInt("timeout_tcp_inspect", w.TCPInspect, h.TCPInspect)
	if len(w.AllowedCIDRs) > 0 && !sameCIDRs(w.AllowedCIDRs, h.AllowedCIDRs) {
		p["allowed_cidrs"] = w.AllowedCIDRs
	}
	if len(w.InsertHeaders)+len(h.InsertHeaders) > 0 {
		headers := w.InsertHeaders
		if headers == nil {
			headers = map[string]string{}
		}
		p.set("insert_headers", headers, h.InsertHeaders)
	}
	if w.TLSRef != "" {
		p.set("default_tls_container_ref", w.TLSRef, h.TLSRef)
	}
	for _, tag := range w.Tags {
		if !slices.Contains(h.Tags, tag) {
			p["tags"] = append(slices.Clone(h.Tags), w.Tags...)
		}
	}
	p.set("admin_state_up", true, h.AdminUp)
	var steps []step
	if len(p) > 0 {
		steps = append(steps, step{Kind: updateListener, ID: h.ID, Name: portName(w), Patch: p})
	}
	i := slices.IndexFunc(pools, func(p havePool) bool { return p.ID == h.DefaultPoolID })
	switch {
	case h.DefaultPoolID == "" || i < 0:
		return append(steps, step{Kind: createPool, ID: h.ID, Name: portName(w), Why: "the listener has none", Pool: w.Pool})
	case pools[i].Protocol != w.Pool.Protocol:
		return append(steps,
			step{Kind: replacePool, ID: h.ID, Name: portName(w), Why: "from " + pools[i].Protocol + " to " + w.Pool.Protocol, Pool: w.Pool},
			step{Kind: deletePool, ID: pools[i].ID, Name: pools[i].Name, Why: "replaced"})
	}
	return append(steps, diffPool(portName(w), *w.Pool, pools[i])...)
}

func diffPool(name string, w wantPool, h havePool) []step {
	p := patch{}
	p.set("lb_algorithm", w.Algorithm, h.Algorithm)
	p.set("admin_state_up", true, h.AdminUp)
	if !samePersistence(w.Persistence, h.Persistence) {
		p["session_persistence"] = w.Persistence
		if w.Persistence == nil {
			p["session_persistence"] = nil // and not a null that has a type
		}
	}
	var steps []step
	if len(p) > 0 {
		steps = append(steps, step{Kind: updatePool, ID: h.ID, Name: name, Patch: p})
	}
	if c := diffMembers(w.Members, h.Members); c != nil {
		steps = append(steps, step{Kind: setMembers, ID: h.ID, Name: name, Members: c})
	}
	return append(steps, diffMonitor(name, w.Monitor, h)...)
}

func diffMonitor(name string, w *wantMonitor, pool havePool) []step {
	h := pool.Monitor
	remove := func(why string) step { return step{Kind: deleteMonitor, ID: h.ID, Name: name, Why: why} }
	create := step{Kind: createMonitor, ID: pool.ID, Name: name, Monitor: w}
	switch {
	case w == nil && h == nil:
		return nil
	case w == nil:
		return []step{remove("none is wanted")}
	case h == nil:
		return []step{create}
	case h.Type != w.Type:
		return []step{remove("from " + h.Type + " to " + w.Type), create}
	}
	p := patch{}
	p.set("delay", w.Delay, h.Delay)
	p.set("timeout", w.Timeout, h.Timeout)
	p.set("max_retries", w.MaxRetries, h.MaxRetries)
	p.set("max_retries_down", w.MaxRetriesDown, h.MaxRetriesDown)
	p.set("admin_state_up", true, h.AdminUp)
	if w.Path != "" {
		p.set("url_path", w.Path, h.Path)
		p.set("http_method", w.Method, h.Method)
		p.set("expected_codes", w.Codes, h.Codes)
	}
	if len(p) == 0 {
		return nil
	}
	return []step{{Kind: updateMonitor, ID: h.ID, Name: name, Patch: p}}
}

// diffBalancer leaves names and tags of others alone.
func diffBalancer(w wantBalancer, h haveBalancer) patch {
	p := patch{}
	p.set("admin_state_up", true, h.AdminUp)
	tags := slices.Clone(h.Tags)
	for _, t := range w.Tags {
		if !slices.Contains(tags, t) {
			tags = append(tags, t)
		}
	}
	if len(tags) > len(h.Tags) {
		p["tags"] = tags
	}
	return p
}

func (p patch) set(field string, want, have any) {
	if !reflect.DeepEqual(want, have) {
		p[field] = want
	}
}

// setInt leaves alone what the API does not know.
func (p patch) setInt(field string, want, have *int) {
	if want != nil && (have == nil || *want != *have) {
		p[field] = *want
	}
}

func sameCIDRs(w, h []string) bool {
	h = slices.Clone(h)
	slices.Sort(h)
	all := slices.ContainsFunc(w, func(s string) bool { return s == "0.0.0.0/0" || s == "::/0" })
	return slices.Equal(w, h) || (len(h) == 0 && all && len(w) == 1)
}

func samePersistence(w, h *persistence) bool {
	if w == nil || h == nil {
		return w == nil && (h == nil || h.Type == "")
	}
	return w.Type == h.Type && (w.Timeout == nil || (h.Timeout != nil && *w.Timeout == *h.Timeout))
}
