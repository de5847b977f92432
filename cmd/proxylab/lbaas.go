package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"proxylab/lab"
	"proxylab/lab/lbaas"
	"proxylab/lab/lbaas/plane"
)

// lbaasListen is the port that Octavia's own API has.
const lbaasListen = "127.0.0.1:9876"

// lbaasOptions are the flags of the verb.
type lbaasOptions struct {
	listen, faults, events string
	quota                  map[string]string
	instances              int
	server                 lbaas.Options
}

func newLBaaS() *cobra.Command {
	var o lbaasOptions
	cmd := &cobra.Command{
		Use:   "lbaas",
		Short: "A mock OpenStack with load balancers that carry traffic",
		Long: `Answer as OpenStack's Octavia, with Keystone and Neutron as far as its clients need them, and carry the traffic of the load
balancers made there, from VIPs in 127.200.0.0/16 to any member that this machine reaches.

It answers in two layouts at once: as Octavia alone, without a token; and below /identity, /load-balancer and /network, with a
catalogue. Users are admin, demo and viewer, each with its name as password. What goes wrong is said by a file (--faults), or at
any time by a request to /proxylab/faults; /proxylab/events tells what happens.`,
		Example: `  proxylab lbaas
  openstack --os-auth-type none --os-endpoint http://` + lbaasListen + ` loadbalancer list
  openstack --os-auth-url http://` + lbaasListen + `/identity --os-username demo --os-password demo --os-project-name demo \
    --os-user-domain-id default --os-project-domain-id default loadbalancer create --name web --vip-subnet-id private-subnet
  curl -N http://` + lbaasListen + `/proxylab/events
  curl -d '{"faults": [{"operation": "member.*", "every": 3, "status": 503}]}' http://` + lbaasListen + `/proxylab/faults`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return o.serve(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", lbaasListen, "address and port to listen on")
	f.StringVar(&o.server.State, "state", "", "file that keeps everything for the next start; without it all is forgotten")
	f.StringVar(&o.faults, "faults", "", "YAML file that says what goes wrong")
	f.StringVar(&o.events, "events", "", "file that gets what happens as JSON lines; - is standard output")
	f.DurationVar(&o.server.ProvisionDelay, "provision-delay", 500*time.Millisecond, "from a write until what it changes is ACTIVE")
	f.DurationVar(&o.server.ProvisionJitter, "provision-jitter", 0, "up to so much more, by chance")
	f.StringVar(&o.server.Version, "api-version", "", "version of Octavia's API that is advertised as the current one, such as v2.10 (default: the newest)")
	f.StringToStringVar(&o.quota, "quota", nil, "limits of every project, such as loadbalancer=10,member=50; others are unlimited")
	f.DurationVar(&o.server.TokenTTL, "token-expiry", time.Hour, "how long a token is good for")
	f.StringVar(&o.server.DefaultProject, "default-project", "demo", "project of requests without Keystone that name none; - refuses them, as Octavia does")
	f.IntVar(&o.instances, "instances", 2, "processes that carry the traffic: 2, of which one stands by, 1, or 0 for an API alone")
	return cmd
}

// check finds all that is wrong with the flags, before anything starts.
func (o *lbaasOptions) check() error {
	var wrong []string
	if err := checkListen("--listen", o.listen); err != nil {
		wrong = append(wrong, strings.Replace(err.Error(), defaultListen, lbaasListen, 1))
	}
	if o.instances < 0 || o.instances > 2 {
		wrong = append(wrong, fmt.Sprintf("--instances %d: accepted are 0, 1 and 2", o.instances))
	}
	for flag, d := range map[string]time.Duration{"--provision-delay": o.server.ProvisionDelay, "--provision-jitter": o.server.ProvisionJitter, "--token-expiry": o.server.TokenTTL} {
		if d < 0 || d == 0 && flag == "--token-expiry" {
			wrong = append(wrong, fmt.Sprintf("%s %s: a time span such as 500ms is wanted", flag, d))
		}
	}
	o.server.Quota = map[string]int{}
	for kind, text := range o.quota {
		limit, err := strconv.Atoi(text)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("--quota %s=%s: a number is wanted; -1 is unlimited", kind, text))
		}
		o.server.Quota[kind] = limit
	}
	if o.instances > 0 {
		o.server.Instances = &lbaas.Instances{Start: startInstance, Names: lab.BalancerNames(o.instances)}
	}
	flags := o.server.Faults // as a plan, the flags are checked as a file would be
	flags.Version, flags.Quota = o.server.Version, o.server.Quota
	for _, m := range flags.Validate(o.known()) {
		flag := map[string]string{"version": "--api-version"}[m.Path]
		if flag == "" {
			flag = "--" + strings.Replace(m.Path, ".", " ", 1)
		}
		wrong = append(wrong, flag+": "+m.Text)
	}
	if len(wrong) > 0 {
		return usagef("%s", strings.Join(wrong, "\n"))
	}
	if o.faults == "" {
		return nil
	}
	plan, err := readFaults(o.faults, o.known())
	o.server.Faults = plan
	return err
}

func (o *lbaasOptions) serve(ctx context.Context, stdout io.Writer) error {
	switch o.events {
	case "":
	case "-":
		o.server.Events = stdout
	default:
		f, err := os.OpenFile(o.events, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("--events: %w", err)
		}
		defer f.Close() // each line is written by itself
		o.server.Events = f
	}
	o.server.Log = slog.Default()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("it cannot listen on %s: %w (--listen takes another)", o.listen, err)
	}
	at := l.Addr().String()
	if a, err := netip.ParseAddrPort(at); err != nil || !a.Addr().Unmap().IsLoopback() {
		slog.Warn("other machines can reach this, and everybody who can may change it: the passwords are known, and at / none is needed")
	}
	slog.Info("Octavia alone: openstack --os-auth-type none --os-endpoint http://" + at + " loadbalancer list")
	slog.Info("with Keystone: OS_AUTH_URL=http://" + at + "/identity OS_USERNAME=demo OS_PASSWORD=demo OS_PROJECT_NAME=demo OS_USER_DOMAIN_ID=default OS_PROJECT_DOMAIN_ID=default")
	return lbaas.Serve(ctx, l, o.server)
}

// startInstance starts this program again as an instance of the data plane. It ends with its standard input.
func startInstance(ctx context.Context, name string) (plane.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, plane.InstanceCommand, "--name", name)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the process that orders
	return plane.StartCommand(cmd, (*exec.Cmd).Start)
}
