package report

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"proxylab/bench/events"
	"proxylab/bench/stats"
)

// LBaaS is what was measured of load balancers: what a Service's user felt, and what API, controller and instances did.
type LBaaS struct {
	// PublishSeconds is the time from a Service being created, or changed, to the first byte through its VIP.
	PublishSeconds *Publish `json:"publishSeconds,omitempty"`
	API            *LBAPI   `json:"api,omitempty"`
	// ProvisioningSeconds is how long balancers were PENDING_*, each time that they were.
	ProvisioningSeconds *ProgrammingSamples `json:"provisioningSeconds,omitempty"`
	Members             *LBMembers          `json:"members,omitempty"`
	Failovers           []LBFailover        `json:"failovers,omitempty"`
	FaultsStruck        map[string]int      `json:"faultsStruck,omitempty"` // name -> times
	Parts               map[string]*Usage   `json:"parts,omitempty"`        // "lbaas", "cloud-controller-manager": what each cost
}

// Publish is a distribution of the seconds that Services took to be of use. One that was not observed within the time limit
// counts with that limit.
type Publish struct {
	ProgrammingSamples
	Unobserved        int                 `json:"unobserved,omitempty"`
	ResolutionSeconds float64             `json:"resolutionSeconds,omitempty"` // widest spacing of the attempts
	Address           *ProgrammingSamples `json:"address,omitempty"`           // until the Service's status had the VIP
}

// LBAPI is what was asked of the LBaaS API, by all its clients.
type LBAPI struct {
	Calls        int                     `json:"calls"`
	Writes       int                     `json:"writes"`       // those that are no GET
	MemberWrites int                     `json:"memberWrites"` // of those, the ones to members of pools
	Errors       int                     `json:"errors"`       // answered 400 or above, but for 404 to a GET, or not at all
	Seconds      *SyncSeconds            `json:"seconds,omitempty"`
	Operations   map[string]*LBOperation `json:"operations,omitempty"`
}

// LBOperation is the calls of one operation.
type LBOperation struct {
	Calls   int          `json:"calls"`
	Codes   map[int]int  `json:"codes"` // status -> calls; 0: no answer
	Seconds *SyncSeconds `json:"seconds,omitempty"`
}

// LBMembers is how the operating state of pool members changed.
type LBMembers struct {
	Changes int `json:"changes"`
	Down    int `json:"down"` // changes from ONLINE to ERROR
}

// LBFailover is a VIP that moved to another instance.
type LBFailover struct {
	From      string  `json:"from"`
	To        string  `json:"to,omitempty"`
	Reason    string  `json:"reason,omitempty"`
	Seconds   float64 `json:"seconds"`
	FlowsLost *int    `json:"flowsLost,omitempty"` // absent: not counted
	FlowsKept *int    `json:"flowsKept,omitempty"`
}

// lbaas gathers the events about load balancers. The zero value has none.
type lbaas struct {
	publish, address []float64
	unobserved       int
	resolution       float64
	api              LBAPI
	calls            []float64
	byOperation      map[string][]float64
	pending          []float64
	members          *LBMembers
	failovers        []LBFailover
	faults           map[string]int
	parts            map[string]*usage
}

// add takes an event; those that are about other things are ignored.
func (l *lbaas) add(e events.Event) {
	switch {
	case e.LBCall != nil:
		l.call(e.LBCall)
	case e.LBState != nil:
		l.state(e.LBState)
	case e.LBPublished != nil:
		l.published(e.LBPublished)
	case e.LBFailover != nil:
		f := e.LBFailover
		l.failovers = append(l.failovers, LBFailover{
			From: f.From, To: f.To, Reason: f.Reason, Seconds: f.Seconds, FlowsLost: f.FlowsLost, FlowsKept: f.FlowsKept,
		})
	case e.LBFault != nil && (e.LBFault.What == "struck" || e.LBFault.What == "done"):
		if l.faults == nil {
			l.faults = map[string]int{}
		}
		l.faults[e.LBFault.Name]++
	case e.PartUsage != nil:
		l.part(e.PartUsage)
	}
}

func (l *lbaas) call(c *events.LBCall) {
	if l.byOperation == nil {
		l.byOperation, l.api.Operations = map[string][]float64{}, map[string]*LBOperation{}
	}
	op := l.api.Operations[c.Operation]
	if op == nil {
		op = &LBOperation{Codes: map[int]int{}}
		l.api.Operations[c.Operation] = op
	}
	op.Calls++
	op.Codes[c.Code]++
	l.api.Calls++
	if c.Write {
		l.api.Writes++
		if strings.HasPrefix(c.Operation, "member.") {
			l.api.MemberWrites++
		}
	}
	looked := c.Code == http.StatusNotFound && !c.Write // what is gone is not there: who asks wants to know
	if c.Code == 0 || c.Code >= 400 && !looked {
		l.api.Errors++
	}
	l.calls = append(l.calls, c.Seconds)
	l.byOperation[c.Operation] = append(l.byOperation[c.Operation], c.Seconds)
}

func (l *lbaas) state(s *events.LBState) {
	switch {
	case s.Kind == "loadbalancer" && s.Status == "provisioning" && strings.HasPrefix(s.From, "PENDING_"):
		l.pending = append(l.pending, s.Seconds)
	case s.Kind == "member" && s.Status == "operating" && s.From != "" && s.To != "DELETED":
		if l.members == nil {
			l.members = &LBMembers{}
		}
		l.members.Changes++
		if s.From == "ONLINE" && s.To == "ERROR" {
			l.members.Down++
		}
	}
}

func (l *lbaas) published(p *events.LBPublished) {
	l.publish = append(l.publish, p.Seconds)
	if p.AddressSeconds != nil {
		l.address = append(l.address, *p.AddressSeconds)
	}
	if p.Error != "" {
		l.unobserved++
	}
	l.resolution = max(l.resolution, p.ResolutionSeconds)
}

func (l *lbaas) part(p *events.PartUsage) {
	if l.parts == nil {
		l.parts = map[string]*usage{}
	}
	if l.parts[p.Part] == nil {
		l.parts[p.Part] = &usage{}
	}
	l.parts[p.Part].add(&events.Usage{PID: p.PID, CPUSeconds: p.CPUSeconds, RSSBytes: p.RSSBytes, MaxRSSBytes: p.MaxRSSBytes})
}

// result is a copy; nil: nothing about load balancers was logged.
func (l *lbaas) result() *LBaaS {
	r := &LBaaS{
		API: l.apiResult(), ProvisioningSeconds: distribution(l.pending),
		Failovers: slices.Clone(l.failovers), FaultsStruck: maps.Clone(l.faults),
	}
	if d := distribution(l.publish); d != nil {
		r.PublishSeconds = &Publish{
			ProgrammingSamples: *d, Unobserved: l.unobserved, ResolutionSeconds: l.resolution, Address: distribution(l.address),
		}
	}
	if l.members != nil {
		members := *l.members
		r.Members = &members
	}
	for part, u := range l.parts {
		if r.Parts == nil {
			r.Parts = map[string]*Usage{}
		}
		r.Parts[part] = u.result()
	}
	if r.API == nil && r.ProvisioningSeconds == nil && r.PublishSeconds == nil && r.Members == nil && r.Failovers == nil &&
		r.FaultsStruck == nil && r.Parts == nil {
		return nil
	}
	return r
}

func (l *lbaas) apiResult() *LBAPI {
	if l.api.Calls == 0 {
		return nil
	}
	r := l.api
	r.Seconds = quantiles(l.calls)
	r.Operations = map[string]*LBOperation{}
	for name, op := range l.api.Operations {
		r.Operations[name] = &LBOperation{Calls: op.Calls, Codes: maps.Clone(op.Codes), Seconds: quantiles(l.byOperation[name])}
	}
	return &r
}

// quantiles is nil where there is no sample.
func quantiles(samples []float64) *SyncSeconds {
	d, ok := stats.OfSamples(samples)
	if !ok {
		return nil
	}
	return &SyncSeconds{P50: d.P50, P99: d.P99, Max: d.Max}
}
