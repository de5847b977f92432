package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"proxylab/bench/usage"
	"proxylab/lab/kernel"
	"proxylab/lab/netns"
	"proxylab/proxiers"
)

// finding is one line of the doctor's report.
type finding struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

func newDoctor() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can run, and the remedy for what it cannot",
		Long: `Try in a throw-away network namespace what labs and proxiers need. Exit code 5 when no lab can run here; a proxier
that cannot run is said, with the remedy, and is no failure. Where there is a User Mode Linux kernel, it is started and
asked the same.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return usagef("-o %q: accepted are table, json", output)
			}
			findings, labErr := examine(cmd.Context())
			if !kernel.Inside() {
				findings = append(findings, kindFindings(cmd.Context())...)
				findings = append(findings, throwAway(cmd.Context())...)
			}
			if err := printFindings(cmd.OutOrStdout(), findings, output); err != nil {
				return err
			}
			return labErr
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// examine tries everything. labErr says why no lab can run here, if none can.
func examine(ctx context.Context) (findings []finding, labErr error) {
	release, err := usage.Kernel()
	if err != nil {
		release = "release not known: " + err.Error()
	}
	findings = append(findings, finding{What: "machine", OK: true,
		Detail: fmt.Sprintf("Linux %s, %s, %d processors", release, runtime.GOARCH, runtime.NumCPU())})
	var errs []error
	for _, p := range netns.Preflight() {
		findings = append(findings, finding{What: "lab netns", Detail: p.What, Remedy: p.Remedy})
		errs = append(errs, p)
	}
	if len(errs) > 0 {
		return findings, errors.Join(errs...)
	}
	findings = append(findings, finding{What: "lab netns", OK: true, Detail: "network and mount namespaces, bridge, veth, IPv6"})
	for _, p := range proxiers.All() {
		f := finding{What: "proxier " + p.Name, OK: true, Detail: p.Summary}
		if err := proxiers.Preflight(ctx, p.Name, "auto"); err != nil {
			f = refused(f.What, err)
		}
		findings = append(findings, f)
	}
	findings = append(findings, backends(ctx)...)
	return append(findings, neighbours(ctx)...), nil
}

// backends says which iptables there are, and what to expect of the one that is used.
func backends(ctx context.Context) []finding {
	var found []finding
	for _, name := range []string{"legacy", "nft"} {
		f := finding{What: "iptables " + name, Detail: "iptables-" + name + " is missing", Remedy: "apt-get install iptables"}
		if out, err := exec.CommandContext(ctx, "iptables-"+name, "--version").Output(); err == nil {
			f = finding{What: "iptables " + name, OK: true, Detail: strings.TrimSpace(string(out))}
		}
		found = append(found, f)
	}
	if out, err := exec.CommandContext(ctx, "iptables", "--version").Output(); err == nil && strings.Contains(string(out), "nf_tables") {
		found = append(found, finding{What: "iptables default", OK: true,
			Detail: "nft: with thousands of Services kube-proxy/iptables takes minutes for a sync on it; --iptables legacy is then the one to compare on"})
	}
	return found
}

func printFindings(w io.Writer, findings []finding, output string) error {
	if output == "json" {
		data, err := json.MarshalIndent(findings, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, string(data))
		return err
	}
	width := 0
	for _, f := range findings {
		width = max(width, len(f.What))
	}
	for _, f := range findings {
		mark := "ok"
		if !f.OK {
			mark = "--"
		}
		fmt.Fprintf(w, "%s  %-*s  %s\n", mark, width, f.What, strings.ReplaceAll(f.Detail, "\n", "\n"+strings.Repeat(" ", width+6)))
		if f.Remedy != "" {
			fmt.Fprintf(w, "    %-*s  remedy: %s\n", width, "", f.Remedy)
		}
	}
	return nil
}
