package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// toolTimeout bounds one run of ipset.
const toolTimeout = 2 * time.Minute

// ipset is the program, in the calling thread's network namespace.
type ipset struct{}

// FindIPSet says where to get the program if it is not there.
func FindIPSet() error {
	if _, err := exec.LookPath("ipset"); err != nil {
		return fmt.Errorf("ipset is not installed: it is in the Debian package ipset (%w)", err)
	}
	return nil
}

func run(ctx context.Context, stdin []byte, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), errors.Join(err, ctx.Err()), strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func (ipset) Restore(ctx context.Context, input []byte) error {
	_, err := run(ctx, input, "ipset", "restore", "-exist")
	return err
}

func (ipset) Save(ctx context.Context) (string, error) { return run(ctx, nil, "ipset", "save") }

func (ipset) Counts(ctx context.Context) (map[string]int, error) {
	text, err := run(ctx, nil, "ipset", "list", "-t")
	if err != nil {
		return nil, err
	}
	counts, name := map[string]int{}, ""
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "Name: "); ok {
			name = strings.TrimSpace(v)
		} else if v, ok := strings.CutPrefix(line, "Number of entries: "); ok {
			if counts[name], err = strconv.Atoi(strings.TrimSpace(v)); err != nil {
				return nil, fmt.Errorf("ipset list -t: entries of %s: %w", name, err)
			}
		}
	}
	return counts, nil
}

// settings are below /proc/sys.
type settings struct{}

func (settings) Get(name string) (string, error) {
	data, err := os.ReadFile("/proc/sys/" + name)
	return strings.TrimSpace(string(data)), err
}

func (settings) Set(name, value string) error {
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
		return fmt.Errorf("set %s to %s: %w", strings.ReplaceAll(name, "/", "."), value, err)
	}
	return nil
}
