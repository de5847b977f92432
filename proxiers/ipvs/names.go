package ipvs

import (
	"fmt"
	"slices"
	"strings"

	"proxylab/proxiers/services"
)

// Link is the dummy link that holds the Service addresses.
const Link = "kube-ipvs0"

// setID is one of the ipsets; each exists once per family.
type setID int

// The sets that have kube-proxy's names, and after them those that it has no counterpart for.
const (
	setLoopBack setID = iota // endpoint, its port, and itself as the source: a pod that meets itself
	setClusterIP
	setExternalIP
	setExternalIPLocal
	setLoadBalancer
	setLoadBalancerLocal
	setLoadBalancerFW // those with source ranges
	setSourceCIDR     // and which these are
	setSourceIP       // the node may use its own load balancer address
	setNodePortTCP
	setNodePortLocalTCP
	setNodePortUDP
	setNodePortLocalUDP
	setNodePortSCTP
	setNodePortLocalSCTP
	setHealthCheckNodePort
	setIPVSIPs // what is on the link

	setNoEndpoints     // refused
	setNoLocal         // dropped: the policy is Local, and the endpoints are elsewhere
	setNoLocalExternal // the same for what does not come from this node or its pods

	numSets
)

type setKind struct{ name, kind string }

const (
	kindIP         = "hash:ip"
	kindIPPort     = "hash:ip,port"
	kindIPPortIP   = "hash:ip,port,ip"
	kindIPPortNet  = "hash:ip,port,net"
	kindPortBitmap = "bitmap:port"
)

var setKinds = [numSets]setKind{
	setLoopBack:            {"LOOP-BACK", kindIPPortIP},
	setClusterIP:           {"CLUSTER-IP", kindIPPort},
	setExternalIP:          {"EXTERNAL-IP", kindIPPort},
	setExternalIPLocal:     {"EXTERNAL-IP-LOCAL", kindIPPort},
	setLoadBalancer:        {"LOAD-BALANCER", kindIPPort},
	setLoadBalancerLocal:   {"LOAD-BALANCER-LOCAL", kindIPPort},
	setLoadBalancerFW:      {"LOAD-BALANCER-FW", kindIPPort},
	setSourceCIDR:          {"LOAD-BALANCER-SOURCE-CIDR", kindIPPortNet},
	setSourceIP:            {"LOAD-BALANCER-SOURCE-IP", kindIPPortIP},
	setNodePortTCP:         {"NODE-PORT-TCP", kindPortBitmap},
	setNodePortLocalTCP:    {"NODE-PORT-LOCAL-TCP", kindPortBitmap},
	setNodePortUDP:         {"NODE-PORT-UDP", kindPortBitmap},
	setNodePortLocalUDP:    {"NODE-PORT-LOCAL-UDP", kindPortBitmap},
	setNodePortSCTP:        {"NODE-PORT-SCTP-HASH", kindIPPort},
	setNodePortLocalSCTP:   {"NODE-PORT-LOCAL-SCTP-HASH", kindIPPort},
	setHealthCheckNodePort: {"HEALTH-CHECK-NODE-PORT", kindPortBitmap},
	setIPVSIPs:             {"IPVS-IPS", kindIP},
	setNoEndpoints:         {"NO-ENDPOINTS", kindIPPort},
	setNoLocal:             {"NO-LOCAL-ENDPOINTS", kindIPPort},
	setNoLocalExternal:     {"NO-LOCAL-EXTERNAL", kindIPPort},
}

// setName is the name in a family: IPv6 sets have a 6 in it, and one of them loses its last letter to it.
func setName(f services.Family, id setID) string {
	if f == services.IPv6 {
		name := setPrefix + "6-" + setKinds[id].name
		return name[:min(len(name), setNameLimit)]
	}
	return setPrefix + setKinds[id].name
}

// setNameLimit is the kernel's.
const setNameLimit = 31

const setPrefix = "KUBE-"

var families = []services.Family{services.IPv4, services.IPv6}

// createSet is the line that makes a set, with kube-proxy's sizes.
func createSet(f services.Family, id setID) string {
	kind := setKinds[id].kind
	if kind == kindPortBitmap {
		return fmt.Sprintf("create %s %s range 0-65535\n", setName(f, id), kind)
	}
	inet := "inet"
	if f == services.IPv6 {
		inet = "inet6"
	}
	return fmt.Sprintf("create %s %s family %s hashsize 1024 maxelem 65536\n", setName(f, id), kind, inet)
}

// ownSet finds a set of this mode by its name.
func ownSet(name string) (f services.Family, id setID, ok bool) {
	for _, f := range families {
		for id := range numSets {
			if setName(f, id) == name {
				return f, id, true
			}
		}
	}
	return "", 0, false
}

// Chains in kube-proxy's names. Those of the first group are of this mode alone.
const (
	chainLoadBalancer = "KUBE-LOAD-BALANCER"
	chainNodePort     = "KUBE-NODE-PORT"
	chainSourceRanges = "KUBE-SOURCE-RANGES-FIREWALL"
	chainIPVSFilter   = "KUBE-IPVS-FILTER"
	chainIPVSOut      = "KUBE-IPVS-OUT-FILTER"

	chainServices      = "KUBE-SERVICES"
	chainPostrouting   = "KUBE-POSTROUTING"
	chainMarkMasq      = "KUBE-MARK-MASQ"
	chainForward       = "KUBE-FORWARD"
	chainProxyFirewall = "KUBE-PROXY-FIREWALL"
	chainCanary        = "KUBE-PROXY-CANARY"
)

var ownChains = []string{chainLoadBalancer, chainNodePort, chainSourceRanges, chainIPVSFilter, chainIPVSOut,
	"KUBE-NODE-PORT-TCP", "KUBE-NODE-PORT-UDP", "KUBE-FIRE-WALL", // kube-proxy 1.9 to 1.11
}

// sharedChains are used by this mode and by mode iptables.
var sharedChains = []string{chainServices, chainPostrouting, chainMarkMasq, chainForward, chainProxyFirewall, chainCanary}

// IsOwnChain says whether a chain of that name is of mode ipvs alone.
func IsOwnChain(name string) bool { return slices.Contains(ownChains, name) }

// IsSharedChain says whether the modes ipvs and iptables both have a chain of that name.
func IsSharedChain(name string) bool { return slices.Contains(sharedChains, name) }

// ofIPTablesMode says whether a chain is of mode iptables alone.
func ofIPTablesMode(table, name string) bool {
	switch name {
	case "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES":
		return true
	case chainServices:
		return table == tableFilter
	}
	for _, prefix := range []string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-FW-", "KUBE-EXT-", "KUBE-XLB-", "KUBE-SEP-"} {
		if strings.HasPrefix(name, prefix) && len(name) == len(prefix)+16 {
			return true
		}
	}
	return false
}

// Schedulers are the names that --ipvs-scheduler takes.
func Schedulers() []string {
	return []string{"rr", "wrr", "lc", "wlc", "sh", "dh", "mh", "sed", "nq", "lblc", "lblcr", "fo", "ovf"}
}

// DefaultScheduler is kube-proxy's default.
const DefaultScheduler = "rr"

// CheckScheduler refuses a name that is none. Empty is the default.
func CheckScheduler(name string) error {
	if name == "" || slices.Contains(Schedulers(), name) {
		return nil
	}
	return fmt.Errorf("IPVS scheduler %q is not known: accepted are %s", name, strings.Join(Schedulers(), ", "))
}
