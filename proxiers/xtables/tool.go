package xtables

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	goiptables "github.com/coreos/go-iptables/iptables"

	"proxylab/proxiers/services"
)

// Tool is what a proxier needs of the iptables programs of one family and back end: Programs has it, and package fake has
// one that needs no kernel.
type Tool interface {
	// Restore feeds iptables-restore --noflush: all of it is done, or at least one table's part is not and the error is
	// a *RestoreError.
	Restore(ctx context.Context, input []byte) error
	// Save prints a table, or all tables there are if table is empty, line by line until yield says false. A line is
	// valid until yield returns.
	Save(ctx context.Context, table string, yield func(line []byte) bool) error
	// EnsureJump puts a rule in front of a chain unless it is somewhere in there.
	EnsureJump(table, chain string, spec ...string) error
	// EnsureChain makes an empty chain unless it is there; if it is, it is emptied.
	EnsureChain(table, chain string) error
}

const (
	// lockWait is how long the tools wait for the xtables lock, in seconds. After that the sync fails and the runner
	// tries again.
	lockWait = 5
	// toolTimeout bounds one run of a tool. The nft back end takes minutes with many chains.
	toolTimeout = 10 * time.Minute
)

// Programs are the real tools of one family and back end. They work on the network namespace of the calling thread.
type Programs struct {
	name, restore, save string
	ipt                 *goiptables.IPTables
}

// Find looks the tools up. All that are missing are in the error, with the Debian package that has them.
func Find(f services.Family, backend string) (Programs, error) {
	var missing []error
	for _, what := range []string{"", "restore", "save"} {
		if _, err := exec.LookPath(Command(f, backend, what)); err != nil {
			missing = append(missing, fmt.Errorf("%s is not installed: it is in the Debian package iptables (%w)",
				Command(f, backend, what), err))
		}
	}
	if len(missing) > 0 {
		return Programs{}, errors.Join(missing...)
	}
	proto := goiptables.ProtocolIPv4
	if f == services.IPv6 {
		proto = goiptables.ProtocolIPv6
	}
	name := Command(f, backend, "")
	ipt, err := goiptables.New(goiptables.IPFamily(proto), goiptables.Timeout(lockWait), goiptables.Path(name))
	if err != nil {
		return Programs{}, fmt.Errorf("%s --version: %w", name, err)
	}
	return Programs{name: name, restore: Command(f, backend, "restore"), save: Command(f, backend, "save"), ipt: ipt}, nil
}

// Open looks the tools up and asks the kernel for tables, which makes those that it has not got yet.
func Open(ctx context.Context, f services.Family, backend string, tables ...string) (Programs, error) {
	p, err := Find(f, backend)
	if err != nil {
		return p, err
	}
	for _, table := range tables {
		if err := p.Save(ctx, table, func([]byte) bool { return false }); err != nil {
			return p, fmt.Errorf("the kernel has no %s table for %s iptables: %w", table, f, err)
		}
	}
	return p, nil
}

// Command is a tool's name for a family and back end: what is "restore" (iptables-legacy-restore), "save"
// (ip6tables-nft-save) or empty (iptables-nft).
func Command(f services.Family, backend, what string) string {
	name := "iptables-" + backend
	if f == services.IPv6 {
		name = "ip6tables-" + backend
	}
	if what != "" {
		name += "-" + what
	}
	return name
}

// Name is the program's, such as "iptables-legacy".
func (p Programs) Name() string { return p.name }

// RandomFully says whether the tool knows MASQUERADE --random-fully.
func (p Programs) RandomFully() bool { return p.ipt.HasRandomFully() }

// Restore implements Tool.
func (p Programs) Restore(ctx context.Context, input []byte) error {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.restore, "--noflush", "--wait="+strconv.Itoa(lockWait))
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &out
	defer bindLife(cmd)()
	if err := cmd.Run(); err != nil {
		return NewRestoreError(cmd.Args, input, out.String(), errors.Join(err, ctx.Err()))
	}
	return nil
}

// Save implements Tool.
func (p Programs) Save(ctx context.Context, table string, yield func([]byte) bool) error {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	var args []string
	if table != "" {
		args = []string{"-t", table}
	}
	cmd := exec.CommandContext(ctx, p.save, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	defer bindLife(cmd)()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("%s: %w", p.save, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	complete, err := eachLine(out, yield)
	if !complete {
		cancel() // it has nothing more to say that anybody wants to hear
	}
	if waited := cmd.Wait(); complete {
		err = errors.Join(err, waited)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// bindLife has the tool end with this process, also when that is killed: one that is still waiting for the lock would
// otherwise write, after the next process has started, what the one before wanted. The kernel ties it to the thread that
// starts the tool, which is therefore kept until the function that is returned is called.
func bindLife(cmd *exec.Cmd) (release func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	return runtime.UnlockOSThread
}

func eachLine(r io.Reader, yield func([]byte) bool) (complete bool, err error) {
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		if !yield(scanner.Bytes()) {
			return false, nil
		}
	}
	return true, scanner.Err()
}

// EnsureJump implements Tool.
func (p Programs) EnsureJump(table, chain string, spec ...string) error {
	return p.ipt.InsertUnique(table, chain, 1, spec...)
}

// EnsureChain implements Tool.
func (p Programs) EnsureChain(table, chain string) error { return p.ipt.ClearChain(table, chain) }
