package netns

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"proxylab/lab/netns/agent"
)

// nodesFile says to the node agent which nodes there are.
func (l *Lab) nodesFile() string { return filepath.Join(l.Dir(), "nodes.json") }

// followNodes sends what the file says each time that this process gets SIGHUP, from now on and until ctx ends.
func followNodes(ctx context.Context, file string, log *slog.Logger) <-chan agent.Nodes {
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGHUP)
	changes := make(chan agent.Nodes)
	go func() { // ends with ctx
		defer signal.Stop(told)
		sendNodes(ctx, file, told, changes, log)
	}()
	return changes
}

func sendNodes(ctx context.Context, file string, told <-chan os.Signal, changes chan<- agent.Nodes, log *slog.Logger) {
	for {
		select {
		case <-told:
		case <-ctx.Done():
			return
		}
		var now agent.Nodes
		if err := readJSON(file, &now); err != nil {
			log.Error("which nodes there are cannot be read, they stay as they are", "error", err)
			continue
		}
		select {
		case changes <- now:
		case <-ctx.Done():
			return
		}
	}
}

func readJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
