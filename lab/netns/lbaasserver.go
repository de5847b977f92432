package netns

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"proxylab/lab/lbaas"
	"proxylab/lab/lbaas/openstack"
	"proxylab/lab/lbaas/plane"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/netns/ns"
	"proxylab/lab/procs"
)

// serverCommand is the hidden command that answers as OpenStack does in a lab, and whose children carry the traffic.
const serverCommand = "lab-lbaas"

// Who asks: the controller of the lab, and whoever uses the OpenStack client. It is a lab: everybody may know it.
const (
	user       = "admin"
	password   = "proxylab"
	project    = "admin"
	network    = "fabric"
	vipSubnet4 = "vip"
	vipSubnet6 = "vip6"
)

func serverCmd() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:          serverCommand,
		Short:        "Be the load balancers of a netns lab",
		Hidden:       true,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGTERM, unix.SIGINT)
			defer stop()
			l, err := Open(name)
			if err != nil {
				return err
			}
			return l.serveLBaaS(ctx)
		},
	}
	cmd.Flags().StringVar(&name, "lab", "", "name of the lab")
	_ = cmd.MarkFlagRequired("lab") // fails only for a flag that is not there
	return cmd
}

// serveLBaaS answers on the socket that Up has handed down, until ctx ends.
func (l *Lab) serveLBaaS(ctx context.Context) error {
	s, err := loadState(l.Name())
	if err != nil {
		return err
	}
	if s.LBaaS == nil {
		return fmt.Errorf("lab %s has no load balancers", l.Name())
	}
	socket := os.NewFile(3, "socket of the API")
	listener, err := net.FileListener(socket)
	if err != nil {
		return fmt.Errorf("socket of the API: %w", err)
	}
	_ = socket.Close()
	var names []string
	for _, b := range fabric.Balancers(s.LBaaS.Instances()) {
		names = append(names, b.Name)
	}
	return lbaas.Serve(ctx, listener, lbaas.Options{
		State:  filepath.Join(l.lbaasDir(), "state.json"),
		Faults: s.LBaaS.Plan, ProvisionDelay: s.LBaaS.ProvisionDelay, ProvisionJitter: s.LBaaS.ProvisionJitter,
		DefaultProject: project,
		Users:          []openstack.User{{Name: user, Password: password, Grants: []openstack.Grant{{Project: project, Roles: []string{"admin", "member", "reader"}}}}},
		Networks:       networks(),
		Instances:      &lbaas.Instances{Names: names, Start: l.startInstance, Fence: l.fence},
		Log:            slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// networks are the fabric as Neutron would describe it: VIPs are given out, and members are nodes.
func networks() []openstack.Network {
	vip4, vip6 := netip.MustParsePrefix(fabric.VIPCIDR4), netip.MustParsePrefix(fabric.VIPCIDR6)
	return []openstack.Network{{Name: network, Subnets: []openstack.Subnet{
		{Name: vipSubnet4, CIDR: vip4, First: netip.MustParseAddr("10.10.1.1"), Last: netip.MustParseAddr("10.10.1.254")},
		{Name: vipSubnet6, CIDR: vip6, First: vip6.Addr().Next(), Last: netip.MustParseAddr("fd00:10:10::1:fffe")},
	}}}
}

// startInstance starts an instance in its namespace. It ends with this process, however that ends.
func (l *Lab) startInstance(_ context.Context, name string) (plane.Process, error) {
	if err := l.fence(name); err != nil { // what an earlier one may have left
		return nil, err
	}
	log, err := os.OpenFile(l.partLog(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := exec.Command(l.opts.Executable, plane.InstanceCommand, "--name", name, "--interface", "eth0")
	cmd.Dir, cmd.Stderr = "/", log
	return plane.StartCommand(cmd, func(cmd *exec.Cmd) error {
		return procs.Start(procs.Spec{
			Lab: l.Name(), Part: instancePart + "/" + name, Cmd: cmd, NetNS: fabric.BalancerPath(l.Name(), name), Bound: true,
		})
	})
}

// fence takes the VIPs from an instance's namespace: the kernel goes on answering for them where the instance is dead.
func (l *Lab) fence(name string) error {
	return ns.Do(fabric.BalancerPath(l.Name(), name), func() error { return plane.RemoveVIPs("eth0") })
}

// cloudArgs is the command line of the controller.
func cloudArgs(kubeconfig, name, url string) []string {
	return []string{cloudPart,
		"--kubeconfig", kubeconfig, "--cluster-name", name,
		"--auth-url", url + "/identity", "--username", user, "--project-name", project,
		"--subnet-id", openstack.StableID("subnet", vipSubnet4), "--subnet-id-v6", openstack.StableID("subnet", vipSubnet6),
		"--internal", // VIPs are on the fabric: who is outside reaches them
	}
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
