// Package cloud gives Services of type LoadBalancer their balancers: Kubernetes' own service controller, with a provider
// that drives OpenStack's LBaaS (Octavia) through gophercloud.
//
// What a Service asks for (want.go) and what the API has (current.go) are plain data; the difference is a list of writes
// (diff.go), and one pass makes them, waiting between two writes only until the balancer takes the next. The same pass
// serves the controller and the repair of drift. Annotations are those of the community's provider.
package cloud

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

// Options are what the cloud controller works with.
type Options struct {
	// Kubeconfig is the path of one that may list and watch Services and Nodes, patch Services and their status, get the
	// Namespace kube-system and write Events.
	Kubeconfig string
	// ClusterName is a part of every balancer's name and has to be unique in the project.
	ClusterName string
	// Workers is how many Services are worked on at the same time; 0: 10.
	Workers int
	// DriftPeriod is how often balancers are compared with what is wanted of them, without a change in Kubernetes; 0: a
	// minute; below: never.
	DriftPeriod time.Duration
	Endpoint    Endpoint
	Balancers   Config
	// Ready, if not nil, is called once, when Kubernetes and OpenStack have answered and Services are worked on.
	Ready func()
	Log   *slog.Logger // nil: slog's default
}

// Endpoint is where OpenStack is.
type Endpoint struct {
	// AuthURL is Keystone's, with a version or without. Without it, Octavia and Network are used as they are, and nobody
	// is asked who we are.
	AuthURL, Username, Password, Project, Domain, Region string

	// Octavia is the URL below which "v2.0/lbaas" is.
	Octavia string
	// Network is the URL below which Neutron's "v2.0" is; "": there are no floating IPs.
	Network string
	// ProjectID is sent along when there is no Keystone.
	ProjectID string

	// RequestTimeout is how long one answer may take; 0: 30 s.
	RequestTimeout time.Duration
	// RetryPause is before a question is repeated, and grows; 0: 200 ms.
	RetryPause time.Duration
}

// Config is what balancers are made of where the Service does not say. It can be read from a file.
type Config struct {
	SubnetID       string `json:"subnetId,omitempty"`       // of VIPs, IPv4
	SubnetID6      string `json:"subnetId6,omitempty"`      // of VIPs, IPv6
	NetworkID      string `json:"networkId,omitempty"`      // of VIPs, if no subnet is given
	MemberSubnetID string `json:"memberSubnetId,omitempty"` // "": that of the VIP

	FloatingNetworkID  string           `json:"floatingNetworkId,omitempty"`
	FloatingSubnetID   string           `json:"floatingSubnetId,omitempty"`
	FloatingSubnet     string           `json:"floatingSubnet,omitempty"`     // pattern of names
	FloatingSubnetTags string           `json:"floatingSubnetTags,omitempty"` // pattern of tags
	Internal           bool             `json:"internal,omitempty"`           // no balancer gets a floating IP
	Classes            map[string]Class `json:"classes,omitempty"`            // by the name that annotations use

	Provider         string `json:"provider,omitempty"`
	Algorithm        string `json:"algorithm,omitempty"` // "": ROUND_ROBIN
	FlavorID         string `json:"flavorId,omitempty"`
	AvailabilityZone string `json:"availabilityZone,omitempty"`

	CreateMonitor         bool `json:"createMonitor,omitempty"`         // also where externalTrafficPolicy is Cluster
	MonitorDelaySeconds   int  `json:"monitorDelaySeconds,omitempty"`   // 0: 5
	MonitorTimeoutSeconds int  `json:"monitorTimeoutSeconds,omitempty"` // 0: 3
	MonitorMaxRetries     int  `json:"monitorMaxRetries,omitempty"`     // 0: 1
	MonitorMaxRetriesDown int  `json:"monitorMaxRetriesDown,omitempty"` // 0: 3

	DefaultTLSContainerRef string `json:"defaultTlsContainerRef,omitempty"`
	// EnableIngressHostname publishes ADDRESS.SUFFIX instead of the address where the PROXY protocol is on, for proxiers
	// that do not know ipMode.
	EnableIngressHostname bool   `json:"enableIngressHostname,omitempty"`
	IngressHostnameSuffix string `json:"ingressHostnameSuffix,omitempty"` // "": nip.io

	MaxShared int `json:"maxShared,omitempty"` // Services on one balancer; 0: 2
	// SerialCreate makes listeners, pools and members one by one, for providers that refuse a whole tree.
	SerialCreate bool `json:"serialCreate,omitempty"`
	// NoCascade deletes children first, for providers that do not.
	NoCascade bool `json:"noCascade,omitempty"`

	Wait Wait `json:"-"`
}

// Class is a named choice of networks; what it has goes before a Service's annotations.
type Class struct {
	FloatingNetworkID  string `json:"floatingNetworkId,omitempty"`
	FloatingSubnetID   string `json:"floatingSubnetId,omitempty"`
	FloatingSubnet     string `json:"floatingSubnet,omitempty"`
	FloatingSubnetTags string `json:"floatingSubnetTags,omitempty"`
	NetworkID          string `json:"networkId,omitempty"`
	SubnetID           string `json:"subnetId,omitempty"`
	MemberSubnetID     string `json:"memberSubnetId,omitempty"`
}

// Wait is the patience with a balancer that is PENDING.
type Wait struct {
	First time.Duration // until the first look; 0: 50 ms
	Most  time.Duration // between two looks; 0: 2 s
	Limit time.Duration // for one write; 0: 2 min
	Retry time.Duration // until the Service is tried again after that; 0: 10 s
}

func (o Options) withDefaults() Options {
	orSet(&o.ClusterName, "kubernetes")
	orSet(&o.Workers, 10)
	orSet(&o.DriftPeriod, time.Minute)
	orSet(&o.Endpoint.RequestTimeout, 30*time.Second)
	orSet(&o.Endpoint.RetryPause, 200*time.Millisecond)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Balancers = o.Balancers.withDefaults()
	return o
}

func (c Config) withDefaults() Config {
	orSet(&c.Algorithm, "ROUND_ROBIN")
	orSet(&c.MonitorDelaySeconds, 5)
	orSet(&c.MonitorTimeoutSeconds, 3)
	orSet(&c.MonitorMaxRetries, 1)
	orSet(&c.MonitorMaxRetriesDown, 3)
	orSet(&c.IngressHostnameSuffix, "nip.io")
	orSet(&c.MaxShared, 2)
	orSet(&c.Wait.First, 50*time.Millisecond)
	orSet(&c.Wait.Most, 2*time.Second)
	orSet(&c.Wait.Limit, 2*time.Minute)
	orSet(&c.Wait.Retry, 10*time.Second)
	return c
}

func orSet[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// check tells all that is wrong.
func (o Options) check() error {
	var errs []error
	if o.Endpoint.AuthURL == "" && o.Endpoint.Octavia == "" {
		errs = append(errs, errors.New("neither an auth URL nor an Octavia endpoint is given"))
	}
	if o.Endpoint.AuthURL != "" && o.Endpoint.Username == "" {
		errs = append(errs, errors.New("an auth URL needs a user name"))
	}
	for name, c := range o.Balancers.Classes {
		if c == (Class{}) {
			errs = append(errs, fmt.Errorf("class %q says nothing", name))
		}
	}
	return errors.Join(errs...)
}

// ReadConfig reads a YAML file and refuses fields that it does not know.
func ReadConfig(path string) (Config, error) {
	var c Config
	b, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("configuration of balancers: %w", err)
	}
	if err := yaml.UnmarshalStrict(b, &c); err != nil {
		return c, fmt.Errorf("configuration of balancers: %s: %w", path, err)
	}
	return c, nil
}
