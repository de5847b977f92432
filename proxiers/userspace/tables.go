package userspace

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	goiptables "github.com/coreos/go-iptables/iptables"

	"proxylab/proxiers/services"
)

const (
	lockWait    = 5 // seconds to wait for the xtables lock; then the sync fails and is tried again
	toolTimeout = 5 * time.Minute
)

// ourChains by table, in the order of writing.
var ourChains = []struct {
	table  string
	chains []string
}{
	{"nat", []string{chainPortals, chainPortalsHost, chainNodePort, chainNodePortHost}},
	{"filter", []string{chainNonLocal}},
}

// tables are one family's rules in the kernel, and what is known to be there.
type tables struct {
	family  services.Family
	tool    tool
	written map[services.Key]rules
}

func newTables(f services.Family, backend string) (*tables, error) {
	t, err := newTool(f, backend)
	if err != nil {
		return nil, err
	}
	return &tables{family: f, tool: t, written: map[services.Key]rules{}}, nil
}

// change is the new state of a Service port; nil rules: gone.
type change struct {
	key   services.Key
	rules rules
}

// sync writes the changes, and everything when full: then the changes must be everything. After an error the next one
// must be full.
func (t *tables) sync(ctx context.Context, changes []change, full bool) error {
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(fmt.Sprint(a.key), fmt.Sprint(b.key)) })
	if full {
		t.written = map[services.Key]rules{}
	}
	input := t.batch(changes, full)
	if len(input) > 0 {
		if err := t.tool.restore(ctx, input); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if c.rules == nil {
			delete(t.written, c.key)
		} else {
			t.written[c.key] = c.rules
		}
	}
	if !full {
		return nil
	}
	for _, j := range jumps {
		if err := t.tool.ipt.InsertUnique(j.table, j.from, 1, j.spec()...); err != nil {
			return fmt.Errorf("jump to %s: %w", j.to, err)
		}
	}
	return nil
}

// batch is the input of iptables-restore; empty: nothing to do. A full one replaces the chains. Another replaces the
// rules of those Service ports whose rules differ: all rules of one in a chain, because their order counts.
func (t *tables) batch(changes []change, full bool) []byte {
	var b bytes.Buffer
	for _, table := range ourChains {
		var lines []string
		for _, chain := range table.chains {
			if full {
				lines = append(lines, ":"+chain+" - [0:0]")
			}
		}
		for _, chain := range table.chains {
			for _, c := range changes {
				old, is := t.written[c.key][chain], c.rules[chain]
				if slices.Equal(old, is) {
					continue
				}
				for _, rule := range old {
					lines = append(lines, "-D "+chain+" "+rule)
				}
				for _, rule := range is {
					lines = append(lines, "-A "+chain+" "+rule)
				}
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "*%s\n%s\nCOMMIT\n", table.table, strings.Join(lines, "\n"))
		}
	}
	return b.Bytes()
}

// count is the number of rules, jumps included.
func (t *tables) count() int {
	n := len(jumps)
	for _, r := range t.written {
		for _, list := range r {
			n += len(list)
		}
	}
	return n
}

// tool is the iptables of one family and back end.
type tool struct {
	name string // "ip6tables-legacy"
	ipt  *goiptables.IPTables
}

func newTool(f services.Family, backend string) (tool, error) {
	name, proto := "iptables-"+backend, goiptables.ProtocolIPv4
	if f == services.IPv6 {
		name, proto = "ip6tables-"+backend, goiptables.ProtocolIPv6
	}
	for _, what := range []string{"", "-restore", "-save"} {
		if _, err := exec.LookPath(name + what); err != nil {
			return tool{}, fmt.Errorf("%w: install it (Debian: apt-get install iptables)", err)
		}
	}
	ipt, err := goiptables.New(goiptables.IPFamily(proto), goiptables.Timeout(lockWait), goiptables.Path(name))
	if err != nil {
		return tool{}, fmt.Errorf("%s --version: %w", name, err)
	}
	return tool{name: name, ipt: ipt}, nil
}

// restore feeds iptables-restore, which leaves alone what the input does not name. Each table is changed wholly or not
// at all.
func (t tool) restore(ctx context.Context, input []byte) error {
	_, err := t.run(ctx, input, t.name+"-restore", "--noflush", fmt.Sprintf("--wait=%d", lockWait))
	return err
}

// save lists all rules of a table.
func (t tool) save(ctx context.Context, table string) ([]byte, error) {
	return t.run(ctx, nil, t.name+"-save", "-t", table)
}

func (t tool) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.WaitDelay = time.Second
	var out, failure bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &failure
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(failure.String()))
	}
	return out.Bytes(), nil
}
