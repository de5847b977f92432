package proxiers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
)

// What mode ipvs has on a node beside the chains that it shares with mode iptables.
const (
	ipvsLink    = "kube-ipvs0"                  // holds the Service addresses
	ipvsTable   = "/proc/thread-self/net/ip_vs" // lists virtual servers, where the kernel has any
	ipvsSetName = "KUBE-"                       // how the names of its ipsets begin
)

// ipvsChains are its own chains.
var ipvsChains = []string{"KUBE-LOAD-BALANCER", "KUBE-NODE-PORT", "KUBE-SOURCE-RANGES-FIREWALL", "KUBE-PROXY-FIREWALL",
	"KUBE-IPVS-FILTER", "KUBE-IPVS-OUT-FILTER"}

// cleanupIPVS removes the chains, sets and the link of mode ipvs. Chains shared with mode iptables, to which these jump, are
// to be removed afterwards. Virtual servers stay, and are told by ipvsLeftovers: without the link nothing leads to them.
func cleanupIPVS(ctx context.Context) error {
	var errs []error
	for _, t := range ipvsTools() {
		for _, table := range []string{"nat", "filter"} {
			errs = append(errs, removeChains(ctx, t, table))
		}
	}
	sets, err := ipvsSets(ctx)
	errs = append(errs, err)
	for _, s := range sets {
		_, err := command(ctx, "", "ipset", "destroy", s)
		errs = append(errs, err)
	}
	link, err := netlink.LinkByName(ipvsLink)
	var none netlink.LinkNotFoundError
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !errors.As(err, &none) {
		errs = append(errs, fmt.Errorf("remove link %s: %w", ipvsLink, err))
	}
	return errors.Join(errs...)
}

// removeChains takes the ipvs chains out of a table in one batch: first the jumps to them, so that they are free to go.
func removeChains(ctx context.Context, tool, table string) error {
	text, err := command(ctx, "", tool+"-save", "-t", table)
	if err != nil {
		return err
	}
	var declare, cut, remove strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := ipvsChain(line); ok {
			fmt.Fprintf(&declare, ":%s - [0:0]\n", name) // as if flushed
			fmt.Fprintf(&remove, "-X %s\n", name)
		} else if from, rule, ok := strings.Cut(strings.TrimPrefix(line, "-A "), " "); ok && strings.HasPrefix(line, "-A ") &&
			jumpsToIPVS(rule) && !slices.Contains(ipvsChains, from) {
			fmt.Fprintf(&cut, "-D %s %s\n", from, rule)
		}
	}
	if declare.Len() == 0 {
		return nil
	}
	batch := "*" + table + "\n" + declare.String() + cut.String() + remove.String() + "COMMIT\n"
	_, err = command(ctx, batch, tool+"-restore", "--noflush")
	return err
}

// ipvsChain reads a chain's declaration.
func ipvsChain(line string) (name string, ok bool) {
	name, _, _ = strings.Cut(strings.TrimPrefix(line, ":"), " ")
	return name, strings.HasPrefix(line, ":") && slices.Contains(ipvsChains, name)
}

func jumpsToIPVS(rule string) bool {
	fields := strings.Fields(rule)
	for i, f := range fields[:max(0, len(fields)-1)] {
		if f == "-j" && slices.Contains(ipvsChains, fields[i+1]) {
			return true
		}
	}
	return false
}

// ipvsLeftovers says what cleanupIPVS looks for, and which virtual servers there are.
func ipvsLeftovers(ctx context.Context) (left []string, err error) {
	var errs []error
	for _, t := range ipvsTools() {
		text, err := command(ctx, "", t+"-save")
		errs = append(errs, err)
		table := ""
		for line := range strings.Lines(text) {
			if name, found := strings.CutPrefix(line, "*"); found {
				table = strings.TrimSpace(name)
			} else if name, ok := ipvsChain(line); ok {
				left = append(left, t+" "+table+" "+name)
			}
		}
	}
	sets, err := ipvsSets(ctx)
	errs = append(errs, err)
	for _, s := range sets {
		left = append(left, "ipset "+s)
	}
	var none netlink.LinkNotFoundError
	if _, err := netlink.LinkByName(ipvsLink); err == nil {
		left = append(left, "link "+ipvsLink)
	} else if !errors.As(err, &none) {
		errs = append(errs, fmt.Errorf("look for link %s: %w", ipvsLink, err))
	}
	servers, err := virtualServers()
	errs = append(errs, err)
	return append(left, servers...), errors.Join(errs...)
}

// ipvsTools are the variants of iptables that are installed.
func ipvsTools() (tools []string) {
	for _, t := range []string{"iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft"} {
		if _, err := exec.LookPath(t + "-save"); err == nil {
			tools = append(tools, t)
		}
	}
	return tools
}

// ipvsSets lists ipsets by kube-proxy's prefix; without the tool there are none of it.
func ipvsSets(ctx context.Context) (sets []string, err error) {
	if _, err := exec.LookPath("ipset"); err != nil {
		return nil, nil //nolint:nilerr // it is what sets are made with
	}
	text, err := command(ctx, "", "ipset", "list", "-n")
	for _, name := range strings.Fields(text) {
		if strings.HasPrefix(name, ipvsSetName) {
			sets = append(sets, name)
		}
	}
	return sets, err
}

// virtualServers lists the kernel's IPVS services. A kernel without IPVS has no such table.
func virtualServers() ([]string, error) {
	f, err := os.Open(ipvsTable)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseVirtualServers(f)
}

// parseVirtualServers reads lines like "TCP  0A600001:0050 rr" (address and port in hexadecimal).
func parseVirtualServers(r io.Reader) (servers []string, err error) {
	for s := bufio.NewScanner(r); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 3 || !slices.Contains([]string{"TCP", "UDP", "SCTP"}, fields[0]) {
			continue
		}
		i := strings.LastIndexByte(fields[1], ':')
		if i < 0 {
			continue
		}
		addr, port := fields[1][:i], fields[1][i+1:]
		number, err := strconv.ParseUint(port, 16, 16)
		if err != nil {
			return servers, fmt.Errorf("%s: port of %q: %w", ipvsTable, s.Text(), err)
		}
		ip, err := hexAddr(addr)
		if err != nil {
			return servers, fmt.Errorf("%s: address of %q: %w", ipvsTable, s.Text(), err)
		}
		servers = append(servers, fmt.Sprintf("virtual server %s %s", fields[0], netip.AddrPortFrom(ip, uint16(number))))
	}
	return servers, nil
}

// hexAddr reads "0A600001", or an IPv6 address in brackets.
func hexAddr(s string) (netip.Addr, error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		return netip.ParseAddr(strings.TrimSuffix(inner, "]"))
	}
	n, err := strconv.ParseUint(s, 16, 32)
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), err
}

// command runs a tool for at most a minute. Its error carries the arguments and what the tool said.
func command(ctx context.Context, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
