package controlplane

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const (
	// labPort is where the API answers inside the lab.
	labPort = 6443
	// maxSocketPath is what the kernel allows for the name of a unix socket, less its final NUL.
	maxSocketPath = 107

	defaultFirstNodePort = 30000
	defaultLastNodePort  = 32767
)

// Config says what a control plane is like. Lab, Dir and Address are required.
type Config struct {
	Lab        string // the lab that owns it
	Dir        string // everything it writes is below; made if missing, readable by this user alone
	Executable string // the binary that has Commands; empty: this one
	NetNS      string // file of the network namespace in which Address exists; empty: loopback only
	// Address is where the API is reached inside the lab, on port 6443. The Service default/kubernetes leads there.
	Address      netip.Addr
	ServiceCIDRs []netip.Prefix // one, or one of each IP family, the primary first
	PodCIDRs     []netip.Prefix // of the whole lab; only checked against the others: whoever makes a Node sets its spec.podCIDRs
	NodePorts    PortRange      // zero: 30000-32767
	Background   Background     // dummy Services that are there from the start
	CacheDir     string         // for populated data directories; empty: proxylab in the user's cache directory
	Log          *slog.Logger   // nil: slog.Default()
}

// PortRange is a range of ports, both ends included.
type PortRange struct {
	First, Last uint16
}

func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// Background asks for dummy Services, which make a proxier's tables as long as those of a real cluster. They live in
// the namespaces "background", "background-1" and so on, 250 in each, are named bg-00000 and so on, and have endpoints in
// 198.18.0.0/15, where nobody answers.
type Background struct {
	Services            int `json:"services"`
	EndpointsPerService int `json:"endpointsPerService"`
}

func (c Config) withDefaults() (Config, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.NodePorts == (PortRange{}) {
		c.NodePorts = PortRange{defaultFirstNodePort, defaultLastNodePort}
	}
	if c.Executable == "" {
		exe, err := os.Executable()
		if err != nil {
			return c, fmt.Errorf("find this program's own file: %w", err)
		}
		c.Executable = exe
	}
	if c.CacheDir == "" {
		dir, err := os.UserCacheDir()
		if err != nil { // no HOME, as in a systemd unit
			dir = "/var/cache"
		}
		c.CacheDir = filepath.Join(dir, "proxylab")
	}
	if c.Dir != "" {
		dir, err := filepath.Abs(c.Dir)
		if err != nil {
			return c, fmt.Errorf("directory of the control plane: %w", err)
		}
		c.Dir = dir
	}
	return c, c.validate()
}

// validate reports everything that is wrong.
func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if runtime.GOOS != "linux" {
		bad("a control plane needs Linux, this is %s", runtime.GOOS)
	}
	if c.Lab == "" {
		bad("the lab has no name")
	}
	if c.Dir == "" {
		bad("no directory given")
	} else if s := (paths{c.Dir}).etcdSocket(); len(s) > maxSocketPath {
		bad("directory %s is too long a path: a socket in it needs %d bytes, the kernel allows %d", c.Dir, len(s), maxSocketPath)
	}
	if !c.Address.Is4() || c.Address.IsUnspecified() || c.Address.IsLoopback() {
		bad("address %s: want an IPv4 address inside the lab, not loopback", c.Address)
	}
	if c.NodePorts.First < 1 || c.NodePorts.Last < c.NodePorts.First {
		bad("node ports %s: want FIRST-LAST, from 1 on", c.NodePorts)
	}
	errs = append(errs, checkRanges("service range", c.ServiceCIDRs, 2), checkRanges("pod range", c.PodCIDRs, 2), c.checkOverlap())
	if len(c.ServiceCIDRs) == 0 {
		bad("no service range given")
	}
	errs = append(errs, c.Background.validate(c.ServiceCIDRs))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	return nil
}

func checkRanges(what string, ranges []netip.Prefix, most int) error {
	var errs []error
	families := map[bool]int{}
	for _, p := range ranges {
		if !p.IsValid() || p.Masked() != p {
			errs = append(errs, fmt.Errorf("%s %s: not the start of a range", what, p))
			continue
		}
		families[p.Addr().Is4()]++
	}
	if len(ranges) > most || families[true] > 1 || families[false] > 1 {
		errs = append(errs, fmt.Errorf("%ss %v: at most one for each IP family", what, ranges))
	}
	return errors.Join(errs...)
}

func (c Config) checkOverlap() error {
	var errs []error
	for _, s := range c.ServiceCIDRs {
		for _, p := range c.PodCIDRs {
			if s.Overlaps(p) {
				errs = append(errs, fmt.Errorf("service range %s and pod range %s overlap", s, p))
			}
		}
		if s.Contains(c.Address) {
			errs = append(errs, fmt.Errorf("address %s lies in service range %s", c.Address, s))
		}
	}
	return errors.Join(errs...)
}

// checkMachine says what of the configuration this machine cannot do.
func (c Config) checkMachine() error {
	v6 := slices.ContainsFunc(slices.Concat(c.ServiceCIDRs, c.PodCIDRs), func(p netip.Prefix) bool { return p.Addr().Is6() })
	if v6 {
		if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
			return fmt.Errorf("this kernel has no IPv6 (%w): boot without ipv6.disable=1, or ask for IPv4 ranges alone", err)
		}
	}
	return nil
}

// paths names the files of a control plane.
type paths struct{ dir string }

func (p paths) state() string            { return filepath.Join(p.dir, "controlplane.json") }
func (p paths) lock() string             { return filepath.Join(p.dir, "controlplane.lock") }
func (p paths) etcdData() string         { return filepath.Join(p.dir, "etcd") }
func (p paths) etcdSocket() string       { return filepath.Join(p.dir, "run", "etcd.sock") }
func (p paths) run() string              { return filepath.Join(p.dir, "run") }
func (p paths) ready(part string) string { return filepath.Join(p.dir, "run", part+".ready") }
func (p paths) logs() string             { return filepath.Join(p.dir, "log") }
func (p paths) log(part string) string   { return filepath.Join(p.dir, "log", part+".log") }
func (p paths) pki(name string) string   { return filepath.Join(p.dir, "pki", name) }
func (p paths) kubeconfig(who string) string {
	return filepath.Join(p.dir, "kubeconfig", who+".yaml")
}

func joinPrefixes(ps []netip.Prefix) string {
	s := make([]string, len(ps))
	for i, p := range ps {
		s[i] = p.String()
	}
	return strings.Join(s, ",")
}
