package cloud

// The objects of Octavia, with the fields that concern a Service. What is wanted is also the body of the request that
// makes it: gophercloud's own types lack some fields, and cannot say null.

type wantBalancer struct {
	Name             string         `json:"name"`
	Description      string         `json:"description,omitempty"`
	SubnetID         string         `json:"vip_subnet_id,omitempty"`
	NetworkID        string         `json:"vip_network_id,omitempty"`
	PortID           string         `json:"vip_port_id,omitempty"`
	Address          string         `json:"vip_address,omitempty"`
	AdditionalVIPs   []vip          `json:"additional_vips,omitempty"`
	Provider         string         `json:"provider,omitempty"`
	FlavorID         string         `json:"flavor_id,omitempty"`
	AvailabilityZone string         `json:"availability_zone,omitempty"`
	Tags             []string       `json:"tags,omitempty"`
	Listeners        []wantListener `json:"listeners,omitempty"`
}

type vip struct {
	SubnetID string `json:"subnet_id"`
	Address  string `json:"ip_address,omitempty"`
}

type wantListener struct {
	Balancer        string            `json:"loadbalancer_id,omitempty"`
	Name            string            `json:"name"`
	Protocol        string            `json:"protocol"`
	Port            int               `json:"protocol_port"`
	ConnectionLimit int               `json:"connection_limit"`
	ClientData      *int              `json:"timeout_client_data,omitempty"`
	MemberConnect   *int              `json:"timeout_member_connect,omitempty"`
	MemberData      *int              `json:"timeout_member_data,omitempty"`
	TCPInspect      *int              `json:"timeout_tcp_inspect,omitempty"`
	InsertHeaders   map[string]string `json:"insert_headers,omitempty"`
	AllowedCIDRs    []string          `json:"allowed_cidrs,omitempty"`
	TLSRef          string            `json:"default_tls_container_ref,omitempty"`
	Tags            []string          `json:"tags,omitempty"`
	Pool            *wantPool         `json:"default_pool,omitempty"`
}

type wantPool struct {
	Balancer    string       `json:"loadbalancer_id,omitempty"`
	Listener    string       `json:"listener_id,omitempty"`
	Name        string       `json:"name"`
	Protocol    string       `json:"protocol"`
	Algorithm   string       `json:"lb_algorithm"`
	Persistence *persistence `json:"session_persistence,omitempty"`
	Members     []wantMember `json:"members,omitempty"`
	Monitor     *wantMonitor `json:"healthmonitor,omitempty"`
}

type persistence struct {
	Type    string `json:"type"`
	Timeout *int   `json:"persistence_timeout,omitempty"` // seconds; UDP and SCTP alone
}

type wantMember struct {
	Name        string `json:"name"`
	Address     string `json:"address"`
	Port        int    `json:"protocol_port"`
	SubnetID    string `json:"subnet_id,omitempty"`
	Weight      int    `json:"weight"`
	MonitorPort int    `json:"monitor_port,omitempty"`
}

type wantMonitor struct {
	Pool           string `json:"pool_id,omitempty"`
	Name           string `json:"name"`
	Type           string `json:"type"`
	Delay          int    `json:"delay"`   // seconds
	Timeout        int    `json:"timeout"` // seconds
	MaxRetries     int    `json:"max_retries"`
	MaxRetriesDown int    `json:"max_retries_down"`
	Path           string `json:"url_path,omitempty"`
	Method         string `json:"http_method,omitempty"`
	Codes          string `json:"expected_codes,omitempty"`
}

type haveBalancer struct {
	ID             string   `json:"id"`
	Name           string   `json:"name"`
	Description    string   `json:"description"`
	Status         string   `json:"provisioning_status"`
	AdminUp        bool     `json:"admin_state_up"`
	Address        string   `json:"vip_address"`
	PortID         string   `json:"vip_port_id"`
	SubnetID       string   `json:"vip_subnet_id"`
	AdditionalVIPs []vip    `json:"additional_vips"`
	Provider       string   `json:"provider"`
	Tags           []string `json:"tags"`
}

type haveListener struct {
	wantListener
	ID            string `json:"id"`
	AdminUp       bool   `json:"admin_state_up"`
	DefaultPoolID string `json:"default_pool_id"`
}

type havePool struct {
	wantPool
	ID        string       `json:"id"`
	AdminUp   bool         `json:"admin_state_up"`
	MonitorID string       `json:"healthmonitor_id"`
	Members   []haveMember `json:"members"` // references, until they are read
	Monitor   *haveMonitor `json:"-"`
}

type haveMember struct {
	wantMember
	ID      string `json:"id"`
	AdminUp bool   `json:"admin_state_up"`
	Backup  bool   `json:"backup"`
}

type haveMonitor struct {
	wantMonitor
	ID      string `json:"id"`
	AdminUp bool   `json:"admin_state_up"`
}

// patch is the fields of an object that are to change, and their new values.
type patch map[string]any

// body is a request's: one object under its name.
type body struct {
	root   string
	object any
}

func (b body) encode() (map[string]any, error) { return map[string]any{b.root: b.object}, nil }

// What gophercloud asks of a body.

func (b body) ToLoadBalancerCreateMap() (map[string]any, error) { return b.encode() }
func (b body) ToLoadBalancerUpdateMap() (map[string]any, error) { return b.encode() }
func (b body) ToListenerCreateMap() (map[string]any, error)     { return b.encode() }
func (b body) ToListenerUpdateMap() (map[string]any, error)     { return b.encode() }
func (b body) ToPoolCreateMap() (map[string]any, error)         { return b.encode() }
func (b body) ToPoolUpdateMap() (map[string]any, error)         { return b.encode() }
func (b body) ToMemberCreateMap() (map[string]any, error)       { return b.encode() }
func (b body) ToMemberUpdateMap() (map[string]any, error)       { return b.encode() }
func (b body) ToMonitorCreateMap() (map[string]any, error)      { return b.encode() }
func (b body) ToMonitorUpdateMap() (map[string]any, error)      { return b.encode() }

// batchMember is one of a batch; it has no name around it.
type batchMember patch

// ToBatchMemberUpdateMap implements pools.BatchUpdateMemberOptsBuilder.
func (m batchMember) ToBatchMemberUpdateMap() (map[string]any, error) { return m, nil }
