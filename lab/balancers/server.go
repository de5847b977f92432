package balancers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"proxylab/lab/labdir"
	"proxylab/lab/lbaas"
	"proxylab/lab/lbaas/openstack"
	"proxylab/lab/lbaas/plane"
	"proxylab/lab/netns/ns"
	"proxylab/lab/procs"
)

// serverCommand is the hidden command that answers as OpenStack does in a lab, and whose children carry the traffic.
const serverCommand = "lab-lbaas"

// Who asks: the controller of the lab, and whoever uses the OpenStack client. It is a lab: everybody may know it.
const (
	user     = "admin"
	password = "proxylab"
	project  = "admin"
)

// Commands returns the hidden command that Start expects in the binary.
func Commands() []*cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:          serverCommand,
		Short:        "Be the load balancers of a lab",
		Hidden:       true,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGTERM, unix.SIGINT)
			defer stop()
			text, err := os.ReadFile(siteFile(name))
			if err != nil {
				return fmt.Errorf("load balancers of lab %s: %w", name, err)
			}
			var s Site
			if err := json.Unmarshal(text, &s); err != nil {
				return fmt.Errorf("%s: %w", siteFile(name), err)
			}
			return s.serve(ctx)
		},
	}
	cmd.Flags().StringVar(&name, "lab", "", "name of the lab")
	_ = cmd.MarkFlagRequired("lab") // fails only for a flag that is not there
	return []*cobra.Command{cmd}
}

// serve answers on the socket that Start has handed down, until ctx ends.
func (s Site) serve(ctx context.Context) error {
	socket := os.NewFile(3, "socket of the API")
	listener, err := net.FileListener(socket)
	if err != nil {
		return fmt.Errorf("socket of the API: %w", err)
	}
	_ = socket.Close()
	var names []string
	for _, i := range s.Instances {
		names = append(names, i.Name)
	}
	return lbaas.Serve(ctx, listener, lbaas.Options{
		State:  filepath.Join(dir(s.Lab), "state.json"),
		Faults: s.Spec.Plan, ProvisionDelay: s.Spec.ProvisionDelay, ProvisionJitter: s.Spec.ProvisionJitter,
		DefaultProject: project,
		Users:          []openstack.User{{Name: user, Password: password, Grants: []openstack.Grant{{Project: project, Roles: []string{"admin", "member", "reader"}}}}},
		Networks:       []openstack.Network{s.Network},
		Instances:      &lbaas.Instances{Names: names, Start: s.startInstance, Fence: s.fence},
		Log:            slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// at is the network namespace of an instance.
func (s Site) at(name string) (string, error) {
	for _, i := range s.Instances {
		if i.Name == name {
			return i.NetNS, nil
		}
	}
	return "", fmt.Errorf("lab %s has no balancer instance %q", s.Lab, name)
}

// startInstance starts an instance in its namespace. It ends with this process, however that ends.
func (s Site) startInstance(_ context.Context, name string) (plane.Process, error) {
	if err := s.fence(name); err != nil { // what an earlier one may have left
		return nil, err
	}
	path, err := s.at(name)
	if err != nil {
		return nil, err
	}
	log, err := labdir.OpenLog(labdir.Log(s.Lab, name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := exec.Command(s.Executable, plane.InstanceCommand, "--name", name, "--interface", "eth0")
	cmd.Dir, cmd.Stderr = "/", log
	return plane.StartCommand(cmd, func(cmd *exec.Cmd) error {
		return procs.Start(procs.Spec{Lab: s.Lab, Part: instancePart + "/" + name, Cmd: cmd, NetNS: path, Bound: true})
	})
}

// fence takes the VIPs from an instance's namespace: the kernel goes on answering for them where the instance is dead.
func (s Site) fence(name string) error {
	path, err := s.at(name)
	if err != nil {
		return err
	}
	return ns.Do(path, func() error { return plane.RemoveVIPs("eth0") })
}

// writeOpenRC writes what a shell has to know for the OpenStack client.
func writeOpenRC(path, url string) error {
	var text string
	for _, v := range [][2]string{
		{"AUTH_URL", url + "/identity"}, {"USERNAME", user}, {"PASSWORD", password}, {"PROJECT_NAME", project},
		{"USER_DOMAIN_NAME", "Default"}, {"PROJECT_DOMAIN_NAME", "Default"}, {"IDENTITY_API_VERSION", "3"},
	} {
		text += fmt.Sprintf("export OS_%s=%s\n", v[0], v[1])
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
