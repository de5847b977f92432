package events

// LBCall is one request that the LBaaS API answered.
type LBCall struct {
	// Operation is what was asked for, in Octavia's nouns: "loadbalancer.create", "member.batch_update", "pool.list",
	// "loadbalancer.show", "listener.update", "port.delete", "token.create".
	Operation string  `json:"operation"`
	Write     bool    `json:"write,omitempty"`  // it is not a GET or HEAD
	Code      int     `json:"code"`             // status; 0: the connection was dropped before an answer
	Seconds   float64 `json:"seconds"`          // from the request's arrival to its answer
	Client    string  `json:"client,omitempty"` // who asked: "cloud" (the lab's controller), "openstack", ...
	Fault     string  `json:"fault,omitempty"`  // name of the fault that changed the answer; "": none
	Error     string  `json:"error,omitempty"`  // faultstring of an answer of 400 and above
}

// LBState is the change of a status of something that the LBaaS keeps.
type LBState struct {
	Kind     string `json:"kind"`               // "loadbalancer", "listener", "pool", "member", "healthmonitor", "l7policy", "rule"
	ID       string `json:"id"`                 //
	Name     string `json:"name,omitempty"`     //
	Balancer string `json:"balancer,omitempty"` // ID of the load balancer that it belongs to; of itself for one
	Pool     string `json:"pool,omitempty"`     // of a member: ID of its pool
	Address  string `json:"address,omitempty"`  // of a balancer: its VIP; of a listener: "TCP:80"; of a member: "10.10.0.11:30080"
	Status   string `json:"status"`             // which one: "provisioning" or "operating"
	From     string `json:"from,omitempty"`     // "": it is new
	To       string `json:"to"`                 // Octavia's words; "DELETED": it is gone
	// Seconds is how long it was in From; 0 for what is new.
	Seconds float64 `json:"seconds,omitempty"`
}

// LBPublished says how long a Service of type LoadBalancer took to be of use.
type LBPublished struct {
	Service string `json:"service"` // namespace/name
	Created bool   `json:"created"` // counted from the Service being created; false: from its being changed
	Address string `json:"address"` // "10.10.0.128:80"; "": none was given
	// AddressSeconds is the time until status.loadBalancer had the address; absent: it never had.
	AddressSeconds *float64 `json:"addressSeconds,omitempty"`
	// Seconds is the time to the first byte of an answer through the VIP.
	Seconds           float64 `json:"seconds"`
	ResolutionSeconds float64 `json:"resolutionSeconds,omitempty"` // spacing of the attempts, so the error of Seconds
	Error             string  `json:"error,omitempty"`             // not observed within the time limit; Seconds is then that limit
}

// LBFailover is a VIP that moved from an instance to the other.
type LBFailover struct {
	From    string  `json:"from"`             // "lb1"
	To      string  `json:"to,omitempty"`     // "": none was left to take over
	Reason  string  `json:"reason,omitempty"` // "killed", "asked for", ...
	Seconds float64 `json:"seconds"`          // from the end of the one to the VIPs' being served by the other
	// Flows are those that were open; lost and kept are absent where nobody counted them.
	FlowsLost *int `json:"flowsLost,omitempty"`
	FlowsKept *int `json:"flowsKept,omitempty"`
}

// LBFault is a fault that was switched on or off, or struck.
type LBFault struct {
	Name string `json:"name"`
	What string `json:"what"` // "on", "off", "struck", "done" (of what happens once: an edit, a delete, a kill)
	Text string `json:"text"` // in words: "member.batch_update answered 503"
}

// PartUsage is the cost so far of one of a lab's own parts, without its children (CPU counted from the start of that process,
// or of the subject if that was later): it is charged to no proxier.
type PartUsage struct {
	Part        string  `json:"part"` // "lbaas", "lbaas-instance/lb1", "cloud-controller-manager"
	PID         int     `json:"pid"`
	CPUSeconds  float64 `json:"cpuSeconds"`
	RSSBytes    int64   `json:"rssBytes"`
	MaxRSSBytes int64   `json:"maxRssBytes"`
}

// NodeChange is something that a scenario did to a node.
type NodeChange struct {
	Node string `json:"node"`
	What string `json:"what"` // "added", "cordoned", "uncordoned", "killed", "removed"
}
