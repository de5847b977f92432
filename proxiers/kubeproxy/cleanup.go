package kubeproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"k8s.io/kubernetes/cmd/kube-proxy/app"
)

// tables are what mode nftables writes, all of it.
var tables = []string{"ip kube-proxy", "ip6 kube-proxy"}

// Cleanup removes from this network namespace what kube-proxy left in the modes named (all, if none is). It is safe to
// repeat, and removes nothing that is not kube-proxy's.
//
// Mode iptables has the chains of the native iptables proxier and is cleaned up by that: here it is nothing to do, and
// so is mode ipvs.
func Cleanup(ctx context.Context, mode ...string) error {
	if len(mode) == 0 {
		mode = modes
	}
	var errs []error
	for _, m := range mode {
		switch {
		case !known(m):
			errs = append(errs, fmt.Errorf("clean up kube-proxy/%s: no such mode", m))
		case m == "nftables":
			errs = append(errs, deleteTables(ctx))
		}
	}
	return errors.Join(errs...)
}

// OwnCleanup does in this network namespace what "kube-proxy --cleanup" does, and nothing more: after mode ipvs the virtual
// servers stay, as they were seen to.
func OwnCleanup() error {
	cmd := app.NewProxyCommand()
	cmd.SetArgs([]string{"--cleanup"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	if err := cmd.Execute(); err != nil {
		return fmt.Errorf("kube-proxy --cleanup: %w", err)
	}
	return nil
}

// Leftovers says what kube-proxy's nftables mode has in this network namespace, one sentence each.
func Leftovers(ctx context.Context) ([]string, error) {
	out, err := nft(ctx, "", "list", "tables")
	if err != nil {
		return nil, err
	}
	var left []string
	for _, line := range strings.Split(out, "\n") {
		for _, t := range tables {
			if strings.TrimSpace(line) == "table "+t {
				left = append(left, "nftables table "+t)
			}
		}
	}
	return left, nil
}

func deleteTables(ctx context.Context) error {
	if _, err := exec.LookPath("nft"); err != nil {
		return nil //nolint:nilerr // then kube-proxy had none to write them with
	}
	var batch strings.Builder
	for _, t := range tables {
		// A table that is not there cannot be deleted, and nft before 1.0.7 has no "destroy".
		fmt.Fprintf(&batch, "add table %s\ndelete table %s\n", t, t)
	}
	if _, err := nft(ctx, batch.String(), "-f", "-"); err != nil {
		return fmt.Errorf("clean up kube-proxy/nftables: %w", err)
	}
	return nil
}

func nft(ctx context.Context, stdin string, args ...string) (string, error) {
	return run(ctx, stdin, "nft", args...)
}

func run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, failure bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &failure
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(failure.String()))
	}
	return out.String(), nil
}
