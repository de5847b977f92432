// Package faults says what goes wrong with a mock OpenStack, and when.
package faults

// Plan is a faults file: facts about the cloud that are not as usual, and faults.
type Plan struct {
	Version  string         `json:"version,omitempty" jsonschema_description:"API version of Octavia that is advertised as current, such as v2.10"`
	Quota    map[string]int `json:"quota,omitempty" jsonschema_description:"Limits of every project: loadbalancer, listener, pool, member, healthmonitor, l7policy, l7rule; -1 is none"`
	Provider *Provider      `json:"provider,omitempty" jsonschema_description:"What the provider cannot do"`
	Faults   []Fault        `json:"faults,omitempty" jsonschema_description:"What goes wrong, and when"`
}

// Provider is what a provider driver lacks; what is left out it has.
type Provider struct {
	BatchMembers *bool `json:"batchMembers,omitempty" jsonschema_description:"false: a batch update of members is refused"`
	Monitors     *bool `json:"monitors,omitempty" jsonschema_description:"false: health monitors are refused"`
	UDP          *bool `json:"udp,omitempty" jsonschema_description:"false: listeners and pools of UDP are refused"`
}

// Fault is one thing that goes wrong. Operation with Nth, Every, Share and Count select requests; a fault without an operation begins
// by itself. The rest says what happens.
type Fault struct {
	Name      string  `json:"name,omitempty" jsonschema_description:"By what it is switched off; given one if left out"`
	Operation string  `json:"operation,omitempty" jsonschema_description:"Operations it strikes, such as loadbalancer.create or member.*; a list is separated by blanks"`
	Nth       int     `json:"nth,omitempty" jsonschema:"minimum=1" jsonschema_description:"Only the k-th of these requests, counted from when the fault is put on"`
	Every     int     `json:"every,omitempty" jsonschema:"minimum=1" jsonschema_description:"Every k-th of them"`
	Share     float64 `json:"share,omitempty" jsonschema:"minimum=0,maximum=1" jsonschema_description:"This share of them, by chance"`
	Count     int     `json:"count,omitempty" jsonschema:"minimum=1" jsonschema_description:"At most so many times"`

	Latency     Duration `json:"latency,omitempty" jsonschema_description:"The answer comes so much later"`
	Jitter      Duration `json:"jitter,omitempty" jsonschema_description:"and up to so much more, by chance"`
	Status      int      `json:"status,omitempty" jsonschema:"enum=401,enum=403,enum=404,enum=409,enum=429,enum=500,enum=502,enum=503,enum=504" jsonschema_description:"The answer is this error"`
	Drop        bool     `json:"drop,omitempty" jsonschema_description:"The connection is closed without an answer"`
	AfterCommit bool     `json:"afterCommit,omitempty" jsonschema_description:"The request is carried out first: then comes the latency, the error or the drop"`

	Pending *Span `json:"pending,omitempty" jsonschema_description:"What the request changes stays PENDING for so long, or forever"`
	Error   bool  `json:"error,omitempty" jsonschema_description:"What the request changes ends in ERROR"`

	After  Duration `json:"after,omitempty" jsonschema_description:"What follows happens so long after the fault is put on, or after the operation"`
	Edit   *Edit    `json:"edit,omitempty" jsonschema_description:"Somebody else edits a resource"`
	Delete *Target  `json:"delete,omitempty" jsonschema_description:"Somebody else deletes a resource"`
	Flap   *Flap    `json:"flap,omitempty" jsonschema_description:"A member fails and recovers, again and again"`
	Kill   string   `json:"kill,omitempty" jsonschema_description:"This balancer instance is killed; active is the one that carries the VIPs"`
}

// Target names resources.
type Target struct {
	Kind string `json:"kind" jsonschema:"required,enum=loadbalancer,enum=listener,enum=pool,enum=member,enum=healthmonitor,enum=l7policy" jsonschema_description:"What it is"`
	Name string `json:"name" jsonschema:"required" jsonschema_description:"Its name, id, or a pattern of names such as kube_*"`
}

// Edit is an update that somebody else makes.
type Edit struct {
	Target
	Set map[string]any `json:"set" jsonschema:"required" jsonschema_description:"Fields of the update, as in the API"`
}

// Flap is a member that comes and goes.
type Flap struct {
	Member string   `json:"member" jsonschema:"required" jsonschema_description:"Its name, id, or a pattern of names"`
	Down   Duration `json:"down,omitempty" jsonschema_description:"How long it is in ERROR each time; 2s if left out"`
	Up     Duration `json:"up,omitempty" jsonschema_description:"How long it is well in between; as long as down if left out"`
}

// Active is the instance that carries the VIPs, whichever it is.
const Active = "active"

// Kinds can be edited and deleted by somebody else.
var Kinds = []string{"loadbalancer", "listener", "pool", "member", "healthmonitor", "l7policy"}

// Statuses can be the answer of a fault.
var Statuses = []int{401, 403, 404, 409, 429, 500, 502, 503, 504}

func (f Fault) onRequest() bool      { return f.Latency != 0 || f.Status != 0 || f.Drop }
func (f Fault) onProvisioning() bool { return f.Pending != nil || f.Error }
func (f Fault) acts() bool           { return f.Edit != nil || f.Delete != nil || f.Flap != nil || f.Kill != "" }
