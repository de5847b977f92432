package cloud

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The annotations that a Service may have.
const (
	annotation         = "loadbalancer.openstack.org/"
	annInternal        = "service.beta.kubernetes.io/openstack-internal-load-balancer"
	annFloatingNetwork = annotation + "floating-network-id"
	annFloatingSubnet  = annotation + "floating-subnet"
	annFloatingSubID   = annotation + "floating-subnet-id"
	annFloatingSubTags = annotation + "floating-subnet-tags"
	annFloatingSubTag  = annotation + "floating-subnet-tag" // its name of old
	annKeepFloating    = annotation + "keep-floatingip"
	annClass           = annotation + "class"
	annSubnet          = annotation + "subnet-id"
	annNetwork         = annotation + "network-id"
	annPort            = annotation + "port-id"
	annMemberSubnet    = annotation + "member-subnet-id"
	annFlavor          = annotation + "flavor-id"
	annZone            = annotation + "availability-zone"
	annMethod          = annotation + "lb-method"
	annConnectionLimit = annotation + "connection-limit"
	annForwardedFor    = annotation + "x-forwarded-for"
	annTLS             = annotation + "default-tls-container-ref"
	annProxy           = annotation + "proxy-protocol"
	annClientData      = annotation + "timeout-client-data"
	annMemberConnect   = annotation + "timeout-member-connect"
	annMemberData      = annotation + "timeout-member-data"
	annTCPInspect      = annotation + "timeout-tcp-inspect"
	annMonitor         = annotation + "enable-health-monitor"
	annMonitorDelay    = annotation + "health-monitor-delay"
	annMonitorTimeout  = annotation + "health-monitor-timeout"
	annMonitorRetries  = annotation + "health-monitor-max-retries"
	annMonitorDown     = annotation + "health-monitor-max-retries-down"
	annNodeSelector    = annotation + "node-selector"
	annHostname        = annotation + "hostname"
	annID              = annotation + "load-balancer-id"      // also written by the provider
	annAddress         = annotation + "load-balancer-address" // written by the provider

	// annMade is the balancer that was made for this Service: annID alone does not tell it from one that a user chose.
	annMade = "lbaas.proxylab.io/made"
)

// settings are what a Service says of its balancer, over what the configuration says.
type settings struct {
	Class
	Internal, KeepFloating bool
	PortID                 string
	SubnetID6              string
	FlavorID, Zone, Method string
	ConnectionLimit        int
	ForwardedFor           bool
	TLSRef                 string
	Proxy                  string // PROXY, PROXYV2; "": none
	ClientData             int    // ms, as the other timeouts
	MemberConnect          int
	MemberData             int
	TCPInspect             int
	Monitor                wantMonitor // its figures
	MonitorAsked           *bool       // by the annotation
	NodeSelector           labels.Selector
	Hostname               string
	ID, Made               string
	Address                netip.Addr // spec.loadBalancerIP
	SourceRanges           []netip.Prefix
}

// settingsOf reads a Service and tells all that is wrong with it.
func settingsOf(svc *corev1.Service, conf Config) (settings, error) {
	r := &annotationReader{values: svc.Annotations}
	s := settings{
		Internal: r.flag(annInternal, conf.Internal), KeepFloating: r.flag(annKeepFloating, false),
		PortID: r.text(annPort, ""), SubnetID6: conf.SubnetID6,
		FlavorID: r.text(annFlavor, conf.FlavorID), Zone: r.text(annZone, conf.AvailabilityZone), Method: r.text(annMethod, conf.Algorithm),
		ConnectionLimit: r.number(annConnectionLimit, -1, -1), ForwardedFor: r.flag(annForwardedFor, false),
		TLSRef: r.text(annTLS, conf.DefaultTLSContainerRef), Proxy: r.proxy(),
		ClientData: r.number(annClientData, 50000, 0), MemberConnect: r.number(annMemberConnect, 5000, 0),
		MemberData: r.number(annMemberData, 50000, 0), TCPInspect: r.number(annTCPInspect, 0, 0),
		Monitor: wantMonitor{
			Delay: r.number(annMonitorDelay, conf.MonitorDelaySeconds, 1), Timeout: r.number(annMonitorTimeout, conf.MonitorTimeoutSeconds, 1),
			MaxRetries:     r.number(annMonitorRetries, conf.MonitorMaxRetries, 1),
			MaxRetriesDown: r.number(annMonitorDown, conf.MonitorMaxRetriesDown, 1),
		},
		NodeSelector: r.selector(annNodeSelector), Hostname: r.text(annHostname, ""),
		ID: r.text(annID, ""), Made: r.text(annMade, ""),
	}
	if _, asked := svc.Annotations[annMonitor]; asked {
		wants := r.flag(annMonitor, false)
		s.MonitorAsked = &wants
	} else if conf.CreateMonitor {
		s.MonitorAsked = &conf.CreateMonitor
	}
	s.networks(r, conf)
	s.addresses(r, svc)
	if s.Monitor.Timeout > s.Monitor.Delay {
		r.wrong(annMonitorTimeout, "a health monitor's timeout (%d s) may not be above its delay (%d s)", s.Monitor.Timeout, s.Monitor.Delay)
	}
	for name, n := range map[string]int{annMonitorRetries: s.Monitor.MaxRetries, annMonitorDown: s.Monitor.MaxRetriesDown} {
		if n > 10 {
			r.wrong(name, "%d is above 10", n)
		}
	}
	if s.ForwardedFor && s.Proxy != "" {
		r.wrong(annForwardedFor, "not together with %s", annProxy)
	}
	return s, errors.Join(r.errs...)
}

// networks chooses where addresses come from: a class goes before annotations, those before the configuration.
func (s *settings) networks(r *annotationReader, conf Config) {
	s.Class = Class{
		FloatingNetworkID:  r.text(annFloatingNetwork, conf.FloatingNetworkID),
		FloatingSubnetID:   r.text(annFloatingSubID, conf.FloatingSubnetID),
		FloatingSubnet:     r.text(annFloatingSubnet, conf.FloatingSubnet),
		FloatingSubnetTags: r.text(annFloatingSubTags, r.text(annFloatingSubTag, conf.FloatingSubnetTags)),
		NetworkID:          r.text(annNetwork, conf.NetworkID),
		SubnetID:           r.text(annSubnet, ""),
		MemberSubnetID:     r.text(annMemberSubnet, conf.MemberSubnetID),
	}
	if s.SubnetID == "" && r.values[annNetwork] == "" {
		s.SubnetID = conf.SubnetID
	}
	name := r.text(annClass, "")
	if name == "" {
		return
	}
	c, ok := conf.Classes[name]
	if !ok {
		r.wrong(annClass, "there is no class %q", name)
		return
	}
	if c.FloatingSubnetID != "" || c.FloatingSubnet != "" || c.FloatingSubnetTags != "" {
		s.FloatingSubnetID, s.FloatingSubnet, s.FloatingSubnetTags = c.FloatingSubnetID, c.FloatingSubnet, c.FloatingSubnetTags
	}
	for _, f := range []struct {
		to   *string
		from string
	}{{&s.FloatingNetworkID, c.FloatingNetworkID}, {&s.NetworkID, c.NetworkID}, {&s.SubnetID, c.SubnetID}, {&s.MemberSubnetID, c.MemberSubnetID}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
}

func (s *settings) addresses(r *annotationReader, svc *corev1.Service) {
	if svc.Spec.LoadBalancerIP != "" {
		var err error
		if s.Address, err = netip.ParseAddr(svc.Spec.LoadBalancerIP); err != nil {
			r.wrong("spec.loadBalancerIP", "%q is no address", svc.Spec.LoadBalancerIP)
		}
	}
	field, ranges := "spec.loadBalancerSourceRanges", svc.Spec.LoadBalancerSourceRanges
	if text := strings.TrimSpace(svc.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]); len(ranges) == 0 && text != "" {
		field, ranges = corev1.AnnotationLoadBalancerSourceRangesKey, strings.Split(text, ",")
	}
	for _, text := range ranges {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			r.wrong(field, "%q is no range of addresses such as 10.0.0.0/24", text)
			continue
		}
		s.SourceRanges = append(s.SourceRanges, prefix.Masked())
	}
}

// annotationReader takes values out of annotations and collects what is wrong with them.
type annotationReader struct {
	values map[string]string
	errs   []error
}

func (r *annotationReader) wrong(name, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: "+format, append([]any{name}, args...)...))
}

func (r *annotationReader) text(name, otherwise string) string {
	if v := strings.TrimSpace(r.values[name]); v != "" {
		return v
	}
	return otherwise
}

func (r *annotationReader) flag(name string, otherwise bool) bool {
	v := r.text(name, "")
	if v == "" {
		return otherwise
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		r.wrong(name, "%q is neither true nor false", v)
	}
	return b
}

func (r *annotationReader) number(name string, otherwise, least int) int {
	v := r.text(name, "")
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || int(n) < least {
		r.wrong(name, "%q is no whole number from %d", v, least)
		return otherwise
	}
	return int(n)
}

// proxy is the pools' protocol that sends the client's address along.
func (r *annotationReader) proxy() string {
	switch v := strings.ToLower(r.text(annProxy, "")); v {
	case "", "false", "f", "0":
		return ""
	case "true", "t", "1", "v1":
		return "PROXY"
	case "v2":
		return "PROXYV2"
	default:
		r.wrong(annProxy, "%q is none of true, false, v1, v2", v)
		return ""
	}
}

func (r *annotationReader) selector(name string) labels.Selector {
	v := r.text(name, "")
	s, err := labels.Parse(v)
	if err != nil {
		r.wrong(name, "%v", err)
		return labels.Everything()
	}
	return s
}
