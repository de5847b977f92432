package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"

	"proxylab/lab"
	"proxylab/lab/procs"
)

// The parts of a control plane, as procs knows them and as the commands are called.
const (
	etcdPart              = "etcd"
	kubeAPIServer         = "kube-apiserver"
	kubeControllerManager = "kube-controller-manager"
	kubeScheduler         = "kube-scheduler"
)

const (
	// goodbye is how long a component may take to end in good order. Nothing is lost after it: what etcd has
	// acknowledged is in its log.
	goodbye = 1500 * time.Millisecond
	// settled is when a component has done what it does only once. In its first seconds others need the processor.
	settled = 5 * time.Second
	// patience is how long a component waits for the one it builds on.
	patience = 2 * time.Minute
)

// Commands returns the hidden commands that the processes of a control plane run. Start expects them in the binary:
// "component etcd --dir DIR" and so on.
//
// Kubernetes' own commands are made when one of them runs, not before: they take over logging, signals and feature
// gates of the whole process, which is why there is one process for each.
func Commands() []*cobra.Command {
	parent := &cobra.Command{
		Use:    "component",
		Short:  "Run a component of a lab's control plane",
		Hidden: true,
		Args:   cobra.NoArgs,
	}
	parent.AddCommand(
		command(etcdPart, runEtcd),
		command(kubeAPIServer, runAPIServer),
		command(kubeControllerManager, runControllerManager),
		command(kubeScheduler, runScheduler),
		backgroundCommand(),
	)
	return []*cobra.Command{parent}
}

func command(part string, run func(context.Context, *component) error) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:          part,
		Short:        "Run " + part + " as the control plane in a directory says",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadComponent(part, dir)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGTERM, unix.SIGINT)
			defer stop()
			return untilTold(ctx, func() error { return run(ctx, c) })
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the control plane")
	_ = cmd.MarkFlagRequired("dir") // fails only for a flag that is not there
	return cmd
}

// untilTold runs f until it ends by itself, or for a short while after ctx has ended.
func untilTold(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if ctx.Err() == nil && err == nil {
			err = errors.New("ended by itself")
		}
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		_ = err // what goes wrong on the way out is in the log
	case <-time.After(goodbye):
	}
	return nil
}

// component is one process of a control plane, seen from inside.
type component struct {
	paths
	part  string
	state state
}

func loadComponent(part, dir string) (*component, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	st, err := loadState(paths{dir})
	if err != nil {
		return nil, err
	}
	if st == nil {
		return nil, fmt.Errorf("no control plane in %s", dir)
	}
	// Deprecated API versions are Kubernetes' own affair here.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	return &component{paths: paths{dir}, part: part, state: *st}, nil
}

// ready tells Start, and the components that build on this one, that it works.
func (c *component) ready() error {
	// Starting leaves several times more garbage than what stays.
	time.AfterFunc(settled, debug.FreeOSMemory)
	return writeFile(c.paths.ready(c.part), []byte(strconv.Itoa(os.Getpid())))
}

// readyPID is the process that last said it was ready; 0: none.
func (p paths) readyPID(part string) int {
	b, err := os.ReadFile(p.ready(part))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

// await waits until another component is ready.
func (c *component) await(ctx context.Context, part string) error {
	limit := lab.Patience(patience)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s was not ready after %s", part, limit))
	defer cancel()
	for c.readyPID(part) == 0 {
		if err := procs.Sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// parse fills options from the flags of an upstream command. Flags are the interface that Kubernetes keeps stable.
func parse(name string, sets cliflag.NamedFlagSets, args []string) error {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	for _, s := range sets.FlagSets {
		fs.AddFlagSet(s)
	}
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("flags of %s: %w", name, err)
	}
	return nil
}
