package nftables

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// tables are all that this proxier ever makes, in any version.
var tables = []string{"ip " + Table, "ip6 " + Table}

// Cleanup removes our tables from this network namespace, whichever version made them, and nothing else. It is safe to repeat.
func Cleanup(ctx context.Context) error {
	if _, err := exec.LookPath("nft"); err != nil {
		return nil //nolint:nilerr // then there was nothing to write them with
	}
	left, err := present(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	var batch strings.Builder
	for _, t := range left {
		// It may go meanwhile; a table that is not there cannot be deleted, and nft before 1.0.7 has no "destroy".
		fmt.Fprintf(&batch, "add table %s\ndelete table %s\n", t, t)
	}
	if _, err := nft(ctx, batch.String(), "-f", "-"); err != nil {
		return fmt.Errorf("clean up nftables: %w", err)
	}
	return nil
}

// Leftovers names our tables in this network namespace.
func Leftovers(ctx context.Context) ([]string, error) {
	if _, err := exec.LookPath("nft"); err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	left, err := present(ctx)
	for i, t := range left {
		left[i] = "nftables table " + t
	}
	return left, err
}

// present lists tables by name alone.
func present(ctx context.Context) (left []string, err error) {
	out, err := nft(ctx, "", "list", "tables")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "table "); ok && slices.Contains(tables, name) {
			left = append(left, name)
		}
	}
	return left, nil
}

// nftLimit bounds one run of nft here: the batches are small.
const nftLimit = 30 * time.Second

func nft(ctx context.Context, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, nftLimit)
	defer cancel()
	return run(ctx, stdin, args...)
}

func run(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "nft", args...)
	var out, failure bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &failure
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("nft %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(failure.String()))
	}
	return out.String(), nil
}
