package iptables

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	goiptables "github.com/coreos/go-iptables/iptables"

	"proxylab/proxiers/services"
)

// tool is what one family needs of the iptables programs. Package fake has one that needs no kernel.
type tool interface {
	// Restore feeds iptables-restore --noflush: all of it is done, or at least one table's part is not and the error is
	// a *RestoreError.
	Restore(ctx context.Context, input []byte) error
	// Save prints a table, or all tables there are if table is empty, line by line until yield says false.
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

// RestoreError is a failed iptables-restore.
type RestoreError struct {
	Args   []string // the command
	Line   int      // of the input, from 1; 0: the tool named none
	Text   string   // that line. "COMMIT" means that the kernel refused the table, not which rule it was for
	Output string   // what the tool printed
	Err    error
}

func (e *RestoreError) Error() string {
	s := fmt.Sprintf("%s: %v: %s", strings.Join(e.Args, " "), e.Err, e.Output)
	if e.Line > 0 {
		s += fmt.Sprintf(" (line %d is %q)", e.Line, e.Text)
	}
	return s
}

func (e *RestoreError) Unwrap() error { return e.Err }

// Locked says whether the tool gave up because another program held the xtables lock.
func (e *RestoreError) Locked() bool { return strings.Contains(e.Output, "xtables lock") }

var failingLine = regexp.MustCompile(`\bline:? (\d+)`)

// newRestoreError finds the line that the tool complains about. Each version has words of its own for it: "Error
// occurred at line: 3", "line 3 failed", "line 3: RULE_APPEND failed".
func newRestoreError(args []string, input []byte, output string, err error) *RestoreError {
	e := &RestoreError{Args: args, Output: strings.TrimSpace(output), Err: err}
	if m := failingLine.FindStringSubmatch(output); m != nil {
		e.Line, _ = strconv.Atoi(m[1]) // digits, and 0 if there are too many
	}
	rest := input
	for i := 1; i <= e.Line && len(rest) > 0; i++ {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		if i == e.Line {
			e.Text = string(line)
		}
		rest = after
	}
	return e
}

// programs are the real tools of one family and back end.
type programs struct {
	restore, save string
	ipt           *goiptables.IPTables
}

func (p programs) Restore(ctx context.Context, input []byte) error {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.restore, "--noflush", "--wait="+strconv.Itoa(lockWait))
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &out
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return newRestoreError(cmd.Args, input, out.String(), errors.Join(err, ctx.Err()))
	}
	return nil
}

func (p programs) Save(ctx context.Context, table string, yield func([]byte) bool) error {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	var args []string
	if table != "" {
		args = []string{"-t", table}
	}
	cmd := exec.CommandContext(ctx, p.save, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
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

func eachLine(r io.Reader, yield func([]byte) bool) (complete bool, err error) {
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		if !yield(scanner.Bytes()) {
			return false, nil
		}
	}
	return true, scanner.Err()
}

func (p programs) EnsureJump(table, chain string, spec ...string) error {
	return p.ipt.InsertUnique(table, chain, 1, spec...)
}

func (p programs) EnsureChain(table, chain string) error { return p.ipt.ClearChain(table, chain) }

// command is a tool's name for a family and back end: iptables-legacy-restore, ip6tables-nft-save, iptables-nft.
func command(f services.Family, backend, what string) string {
	name := "iptables-" + backend
	if f == services.IPv6 {
		name = "ip6tables-" + backend
	}
	if what != "" {
		name += "-" + what
	}
	return name
}

// newPrograms looks the tools up. All that are missing are in the error.
func newPrograms(f services.Family, backend string) (programs, error) {
	var missing []error
	for _, what := range []string{"", "restore", "save"} {
		if _, err := exec.LookPath(command(f, backend, what)); err != nil {
			missing = append(missing, fmt.Errorf("%s is not installed: it is in the Debian package iptables (%w)",
				command(f, backend, what), err))
		}
	}
	if len(missing) > 0 {
		return programs{}, errors.Join(missing...)
	}
	proto := goiptables.ProtocolIPv4
	if f == services.IPv6 {
		proto = goiptables.ProtocolIPv6
	}
	name := command(f, backend, "")
	ipt, err := goiptables.New(goiptables.IPFamily(proto), goiptables.Timeout(lockWait), goiptables.Path(name))
	if err != nil {
		return programs{}, fmt.Errorf("%s --version: %w", name, err)
	}
	return programs{restore: command(f, backend, "restore"), save: command(f, backend, "save"), ipt: ipt}, nil
}
