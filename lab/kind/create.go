package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/kind/pkg/cluster"
	kindexec "sigs.k8s.io/kind/pkg/exec"
	kindlog "sigs.k8s.io/kind/pkg/log"
	"sigs.k8s.io/yaml"

	"proxylab/lab"
	"proxylab/lab/labdir"
	"proxylab/lab/procs"
	"proxylab/lab/proxierproc"
)

// createPart is the process that makes the cluster. kind's library cannot be told to stop: it is a child that can be
// killed, which the kernel also does when this process ends, and what it has made by then is found by the cluster's label.
const createPart = "create"

// create makes the cluster.
func (m *making) create(ctx context.Context) error {
	if m.state.Adopted || m.state.Release != "" {
		return nil
	}
	if err := m.docker.remove(ctx, clusterLabel, m.Name()); err != nil { // what a killed process left
		return err
	}
	config, err := configuration(m.opts, Examine())
	if err != nil {
		return err
	}
	for _, image := range images(config) {
		if err := m.docker.ensureImage(ctx, image); err != nil {
			return err
		}
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	file := filepath.Join(labdir.Dir(m.Name()), "kind.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	m.log.Info("kind makes the cluster", "nodes", len(config.Nodes), "image", images(config)[0])
	if err := m.runCreate(ctx, file); err != nil {
		return err
	}
	m.state.Nodes = len(config.Nodes)
	return nil
}

func (m *making) runCreate(ctx context.Context, config string) error {
	path := labdir.Log(m.Name(), createPart)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	log, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(m.opts.Executable, "kind-create", "--name", m.Name(), "--config", config, "--kubeconfig", m.Kubeconfig())
	cmd.Stdout, cmd.Stderr = log, log
	if err := procs.Start(procs.Spec{Lab: m.Name(), Part: createPart, Cmd: cmd, Bound: true}); err != nil {
		return err
	}
	select {
	case err = <-procs.Ended(cmd):
		if err != nil {
			err = fmt.Errorf("kind: %w:\n%s", err, proxierproc.Tail(path))
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	clean := context.WithoutCancel(ctx)
	return errors.Join(err,
		procs.Stop(clean, m.Name(), createPart, 0), // with the docker commands that it runs
		m.docker.remove(clean, clusterLabel, m.Name()))
}

// newCreate is the child.
func newCreate() *cobra.Command {
	var name, config, kubeconfig string
	cmd := &cobra.Command{
		Use: "kind-create", Short: "Make a kind cluster", Hidden: true, Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := os.MkdirAll(filepath.Dir(kubeconfig), 0o700); err != nil {
				return err
			}
			provider := cluster.NewProvider(cluster.ProviderWithDocker(), cluster.ProviderWithLogger(logger{cmd.ErrOrStderr()}))
			err := provider.Create(name, cluster.CreateWithConfigFile(config), cluster.CreateWithKubeconfigPath(kubeconfig),
				cluster.CreateWithRetain(true), cluster.CreateWithDisplayUsage(false), cluster.CreateWithDisplaySalutation(false))
			if run := kindexec.RunErrorForError(err); run != nil {
				return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(run.Output)))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the cluster")
	cmd.Flags().StringVar(&config, "config", "", "kind configuration")
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "where its kubeconfig goes")
	return cmd
}

// logger writes what kind says, a line each.
type logger struct{ w io.Writer }

func (l logger) Warn(message string)            { fmt.Fprintln(l.w, "warning:", message) }
func (l logger) Warnf(format string, a ...any)  { l.Warn(fmt.Sprintf(format, a...)) }
func (l logger) Error(message string)           { fmt.Fprintln(l.w, "error:", message) }
func (l logger) Errorf(format string, a ...any) { l.Error(fmt.Sprintf(format, a...)) }
func (l logger) V(level kindlog.Level) kindlog.InfoLogger {
	return infoLogger{l.w, level <= 1}
}

type infoLogger struct {
	w  io.Writer
	on bool
}

func (l infoLogger) Enabled() bool { return l.on }
func (l infoLogger) Info(message string) {
	if l.on {
		fmt.Fprintln(l.w, message)
	}
}
func (l infoLogger) Infof(format string, a ...any) { l.Info(fmt.Sprintf(format, a...)) }

// missing makes one error of problems; nil where there are none. errors.As finds a lab.Missing in it.
func missing(problems []lab.Missing) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}
