// Package plane carries the traffic of load balancers, from a VIP to their members, in user space: TCP, HTTP and TLS as
// haproxy does with the configuration that Octavia writes, UDP as LVS does.
//
// An Instance is a process that carries it; a Set starts one or two of them, tells them what to carry (the types of this
// file), hears what they see, and lets the standby take over where the active one ends or hangs. They speak JSON lines
// (wire.go). Below: sched chooses members, check asks whether they work, vip is sockets and addresses.
package plane

import (
	"net/netip"
	"time"
)

// Balancer is what one load balancer has to do, whole: the desired state in Octavia's own words (API v2).
type Balancer struct {
	ID        string       `json:"id"`
	Name      string       `json:"name,omitempty"`
	VIPs      []netip.Addr `json:"vips"` // the VIP, then the additional ones
	AdminUp   bool         `json:"adminUp"`
	Listeners []Listener   `json:"listeners,omitempty"`
	Pools     []Pool       `json:"pools,omitempty"`
}

// Listener is a port of a balancer.
type Listener struct {
	ID              string            `json:"id"`
	Protocol        string            `json:"protocol"` // TCP, UDP, HTTP, HTTPS, TERMINATED_HTTPS
	Port            uint16            `json:"port"`
	AdminUp         bool              `json:"adminUp"`
	DefaultPool     string            `json:"defaultPool,omitempty"`     // ID; "": none
	ConnectionLimit int               `json:"connectionLimit,omitempty"` // 0 or below: none
	AllowedCIDRs    []netip.Prefix    `json:"allowedCidrs,omitempty"`    // empty: everyone; others are dropped, not refused
	InsertHeaders   map[string]string `json:"insertHeaders,omitempty"`
	Policies        []L7Policy        `json:"policies,omitempty"` // by position
	Timeouts        Timeouts          `json:"timeouts"`
	// Certificate and Key are PEM; empty for TERMINATED_HTTPS: the plane makes a self-signed pair.
	Certificate []byte `json:"certificate,omitempty"`
	Key         []byte `json:"key,omitempty"`
}

// Timeouts are those of a listener; 0: Octavia's default (50 s, 5 s, 50 s, none).
type Timeouts struct {
	ClientData    time.Duration `json:"clientData,omitempty"`
	MemberConnect time.Duration `json:"memberConnect,omitempty"`
	MemberData    time.Duration `json:"memberData,omitempty"`
	// TCPInspect delays nothing, as in haproxy: Octavia writes no rule that would inspect.
	TCPInspect time.Duration `json:"tcpInspect,omitempty"`
}

// L7Policy acts on the requests that all its rules match.
type L7Policy struct {
	ID             string   `json:"id"`
	Action         string   `json:"action"` // REDIRECT_TO_POOL, REDIRECT_TO_URL, REDIRECT_PREFIX, REJECT
	AdminUp        bool     `json:"adminUp"`
	RedirectPool   string   `json:"redirectPool,omitempty"`
	RedirectURL    string   `json:"redirectUrl,omitempty"`
	RedirectPrefix string   `json:"redirectPrefix,omitempty"`
	RedirectCode   int      `json:"redirectCode,omitempty"` // 0: 302
	Rules          []L7Rule `json:"rules"`
}

// L7Rule matches a request.
type L7Rule struct {
	Type        string `json:"type"`        // HOST_NAME, PATH, FILE_TYPE, HEADER, COOKIE
	CompareType string `json:"compareType"` // EQUAL_TO, STARTS_WITH, ENDS_WITH, CONTAINS, REGEX
	Key         string `json:"key,omitempty"`
	Value       string `json:"value"`
	Invert      bool   `json:"invert,omitempty"`
	AdminUp     bool   `json:"adminUp"`
}

// Pool is a set of members.
type Pool struct {
	ID          string       `json:"id"`
	Protocol    string       `json:"protocol"`  // TCP, UDP, HTTP, HTTPS, PROXY, PROXYV2
	Algorithm   string       `json:"algorithm"` // ROUND_ROBIN, LEAST_CONNECTIONS, SOURCE_IP, SOURCE_IP_PORT
	AdminUp     bool         `json:"adminUp"`
	Persistence *Persistence `json:"persistence,omitempty"`
	Monitor     *Monitor     `json:"monitor,omitempty"`
	Members     []Member     `json:"members,omitempty"`
}

// Persistence keeps a client at its member.
type Persistence struct {
	Type        string        `json:"type"` // SOURCE_IP, HTTP_COOKIE, APP_COOKIE
	CookieName  string        `json:"cookieName,omitempty"`
	Timeout     time.Duration `json:"timeout,omitempty"`     // of UDP; 0: 360 s
	Granularity string        `json:"granularity,omitempty"` // of UDP: a netmask
}

// Member is a server of a pool.
type Member struct {
	ID             string     `json:"id"`
	Address        netip.Addr `json:"address"`
	Port           uint16     `json:"port"`
	Weight         int        `json:"weight"` // 0: drains
	Backup         bool       `json:"backup,omitempty"`
	AdminUp        bool       `json:"adminUp"`
	MonitorAddress netip.Addr `json:"monitorAddress,omitzero"`
	MonitorPort    uint16     `json:"monitorPort,omitempty"`
}

// Monitor asks members whether they work.
type Monitor struct {
	ID             string        `json:"id"`
	Type           string        `json:"type"` // TCP, HTTP, HTTPS, PING, UDP-CONNECT, TLS-HELLO, SCTP
	AdminUp        bool          `json:"adminUp"`
	Delay          time.Duration `json:"delay"`
	Timeout        time.Duration `json:"timeout"`
	MaxRetries     int           `json:"maxRetries"`     // answers until a member is up
	MaxRetriesDown int           `json:"maxRetriesDown"` // failures until it is down; 0: 3
	Method         string        `json:"method,omitempty"`
	Path           string        `json:"path,omitempty"`
	ExpectedCodes  string        `json:"expectedCodes,omitempty"` // "200", "200,202", "200-204"
	HTTPVersion    float64       `json:"httpVersion,omitempty"`
	DomainName     string        `json:"domainName,omitempty"`
}

// Operating states, Octavia's words.
const (
	Online    = "ONLINE"
	Offline   = "OFFLINE"
	Error     = "ERROR"
	Draining  = "DRAINING"
	Degraded  = "DEGRADED"
	NoMonitor = "NO_MONITOR"
)

// Status is what the plane has seen of one balancer. What a state of a listener, pool or balancer follows from those of
// members is Octavia's business, not the plane's.
type Status struct {
	ID        string              `json:"id"`
	Members   map[string]string   `json:"members,omitempty"`   // member ID -> operating state
	Listeners map[string]Counters `json:"listeners,omitempty"` // listener ID -> since the instance started; from a Set: since that began
	Problems  map[string]string   `json:"problems,omitempty"`  // listener ID -> why it does not do what it should ("address already in use")
	Instance  string              `json:"instance,omitempty"`  // who answers for the VIP now
}

// Counters are Octavia's statistics of a listener.
type Counters struct {
	ActiveConnections int64 `json:"activeConnections"`
	TotalConnections  int64 `json:"totalConnections"`
	BytesIn           int64 `json:"bytesIn"`
	BytesOut          int64 `json:"bytesOut"`
	RequestErrors     int64 `json:"requestErrors"`
}
