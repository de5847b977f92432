package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"proxylab/bench/usage"
	"proxylab/lab"
	"proxylab/lab/labs"
	"proxylab/proxiers/conformance"
	"proxylab/proxiers/conformance/dialer"
	"proxylab/proxiers/conformance/rows"
	"proxylab/scenarios/conform"
)

// conformanceProxiers are tried when nobody says which: those that most kernels run.
var conformanceProxiers = []string{"userspace", "iptables", "nftables", "kube-proxy/iptables", "kube-proxy/nftables"}

// conformanceOptions are the flags of conformance.
type conformanceOptions struct {
	lab                    labFlags
	name, output, pattern  string
	proxiers               []string
	nodes, kills, parallel int
	quick, list, disturb   bool
	terms                  proxierFlags
	kernel                 kernelFlags
}

func newConformance() *cobra.Command {
	var o conformanceOptions
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Try every behaviour of a Service proxy with every proxier",
		Long: `Try what a Service proxy must do to packets, behaviour by behaviour, with each proxier, on a lab made for it
and removed afterwards, or on the one that --name says. What is printed at the end says where each behaviour holds,
how a proxier differs, and where one does not apply and why.

Exit codes: 0 every native proxier holds all that applies to it, 1 failed, 2 wrong use, 3 a native proxier differs, 5
this machine lacks something.`,
		Example: `  proxylab conformance --list
  proxylab conformance --proxiers iptables,kube-proxy/iptables --rows '^affinity'
  proxylab conformance --quick -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.proxiers, "proxiers", conformanceProxiers, "proxiers to try, in this order")
	f.StringVar(&o.pattern, "rows", "", `only behaviours whose "area: name" matches this regular expression`)
	f.BoolVar(&o.quick, "quick", false, "only the quick subset")
	f.BoolVar(&o.list, "list", false, "print the behaviours and end")
	o.lab.register(cmd)
	f.StringVar(&o.name, "name", "", "use this lab, which is up and stays up (default: a lab of its own)")
	f.BoolVar(&o.disturb, "disturb", false, "also on a cluster that was there before the lab: what is set on its nodes stays if this program is killed")
	f.IntVar(&o.nodes, "nodes", 2, "nodes of the lab; behaviours use the first two")
	f.IntVar(&o.kills, "kills", 50, "how often the proxier is killed where a behaviour does that")
	f.IntVar(&o.parallel, "parallel", 4, "behaviours tried at the same time, of those that leave the proxier alone")
	f.StringVarP(&o.output, "output", "o", "table", "what to print at the end: json, table")
	o.terms.register(cmd)
	o.kernel.register(cmd)
	for name, value := range map[string]string{"min-sync-period": "50ms", "sync-period": "5s"} {
		flag := f.Lookup(name)
		flag.DefValue = value
		_ = flag.Value.Set(value) // it parses
	}
	return cmd
}

// newDial is what a conformance run starts at each place of its lab.
func newDial() *cobra.Command {
	return &cobra.Command{
		Use: "dial", Short: "Connect to Services as standard input says", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return dialer.Main(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func (o *conformanceOptions) run(cmd *cobra.Command) error {
	chosen, err := o.rows()
	if o.list && err == nil {
		return listRows(cmd.OutOrStdout(), chosen)
	}
	under, unknown := conform.Proxiers(o.proxiers)
	if err := errors.Join(err, o.validate(cmd), unknown); err != nil { // all that is wrong, at once
		return usageError{err}
	}
	if o.kernel.uml() {
		return o.kernel.passThrough(cmd, nil)
	}
	if err := o.lab.settle(cmd, o.name); err != nil {
		return err
	}
	if o.name != "" && labs.Adopted(o.name) && !o.disturb {
		return usagef("the cluster of lab %s was there before it: behaviours flush rules, break programs and set addresses, routes and kernel settings on nodes, and undo it only if nobody kills this program; leave --name out for a cluster of its own, or say --disturb", o.name)
	}
	if err := o.lab.preflight(cmd.Context(), o.nodes); err != nil {
		return err
	}
	var specs []lab.ProxierSpec
	for _, name := range o.proxiers {
		spec, err := o.terms.spec(cmd.Context(), o.lab.kind, name)
		if err != nil {
			return err
		}
		specs = append(specs, spec)
	}
	doc := conformance.Document{}
	err = o.onLab(cmd, specs, func(ctx context.Context, c *conform.Cluster) error {
		config := conformance.Config{
			Cluster: c, Proxiers: under, Rows: chosen, Parallel: o.parallel, Kills: o.kills, Patience: lab.Patience, Log: slog.Default(),
			Done: conformanceProgress(cmd.ErrOrStderr()),
		}
		if verbose, _ := cmd.Flags().GetBool("verbose"); verbose {
			config.Rules = cmd.ErrOrStderr()
		}
		results, err := conformance.Run(ctx, config)
		doc.Rows = results
		doc.Environment.Backends = c.Backends()
		return err
	})
	if err != nil && len(doc.Rows) == 0 {
		return err
	}
	conformance.Sort(doc.Rows, chosen, under)
	doc.Interrupted = cmd.Context().Err() != nil
	if err := o.print(cmd, doc); err != nil {
		return err
	}
	if doc.Interrupted {
		return errors.New("interrupted: the result is of what was tried until then")
	}
	if err != nil {
		return err
	}
	native := slices.DeleteFunc(under, func(p conformance.Proxier) bool { return !p.Native })
	if differ, applicable := doc.Differing(native...); differ > 0 {
		return behavioursError{differ, applicable}
	}
	return nil
}

// rows are those that the flags choose.
func (o *conformanceOptions) rows() ([]conformance.Row, error) {
	pattern, err := regexp.Compile(o.pattern)
	if err != nil {
		return nil, usagef("--rows: %w", err)
	}
	chosen := slices.DeleteFunc(rows.All(), func(r conformance.Row) bool {
		return !pattern.MatchString(r.ID()) || o.quick && !r.Quick
	})
	if len(chosen) == 0 {
		return nil, usagef(`--rows %q matches no behaviour; "proxylab conformance --list" prints them`, o.pattern)
	}
	return chosen, nil
}

func (o *conformanceOptions) validate(cmd *cobra.Command) error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := o.lab.settle(cmd, ""); err != nil && o.name == "" {
		errs = append(errs, err)
	}
	if err := o.terms.validate(); err != nil {
		errs = append(errs, err)
	}
	if err := o.kernel.validate(cmd, o.name); err != nil {
		errs = append(errs, err)
	}
	if o.output != "table" && o.output != "json" {
		complain("-o %q: accepted are json, table", o.output)
	}
	if o.nodes < 2 || o.nodes > labs.MaxNodes(o.lab.kind) {
		complain("--nodes %d: accepted are 2 to %d", o.nodes, labs.MaxNodes(o.lab.kind))
	}
	if o.name != "" && cmd.Flags().Changed("nodes") {
		complain("--nodes is for a lab of the run's own, --name for one that is up: give one of them")
	}
	if o.kills < 1 || o.kills > 10000 {
		complain("--kills %d: accepted are 1 to 10000", o.kills)
	}
	if o.parallel < 1 || o.parallel > 64 {
		complain("--parallel %d: accepted are 1 to 64", o.parallel)
	}
	if len(o.proxiers) == 0 {
		complain("--proxiers is empty: name at least one")
	}
	for i, name := range o.proxiers {
		if slices.Contains(o.proxiers[:i], name) {
			complain("--proxiers names %s twice", name)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

// onLab does something on the lab that is up, or on one made for it and removed after it.
func (o *conformanceOptions) onLab(cmd *cobra.Command, specs []lab.ProxierSpec, f func(context.Context, *conform.Cluster) error) error {
	ctx := cmd.Context()
	if o.name != "" {
		l, err := labs.Open(o.name)
		if err != nil {
			return err
		}
		c, err := conform.New(ctx, l, specs)
		if err != nil {
			return err
		}
		giveBack, err := c.TakeOver(ctx)
		if err == nil {
			err = f(ctx, c)
		}
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return errors.Join(err, giveBack(back))
	}
	return inLab(ctx, o.lab.options(fmt.Sprintf("conformance-%d", os.Getpid()), o.nodes), func(l lab.Lab) error {
		c, err := conform.New(ctx, l, specs)
		if err != nil {
			return err
		}
		return f(ctx, c)
	})
}

func (o *conformanceOptions) print(cmd *cobra.Command, doc conformance.Document) error {
	release, err := usage.Kernel()
	if err != nil {
		return err
	}
	e := &doc.Environment
	e.Lab, e.Nodes, e.CPUs, e.Version = o.lab.kind, o.nodes, runtime.NumCPU(), versionText()
	e.Kernel = conformance.Kernel{Kind: kernelKind(), Release: release}
	e.Facts = append(environment(o.terms, o.lab.kind), "nodes send every ICMP error: the kernel's limits on them are off, for all proxiers")
	data := []byte(doc.Table())
	if o.output == "json" {
		if data, err = doc.JSON(); err != nil {
			return err
		}
	}
	_, err = cmd.OutOrStdout().Write(data)
	return err
}

func listRows(w io.Writer, all []conformance.Row) error {
	for _, r := range all {
		marks := ""
		if r.Quick {
			marks += " [quick]"
		}
		for _, f := range r.Faults {
			marks += " " + f
		}
		if _, err := fmt.Fprintf(w, "%s%s\n", r.ID(), marks); err != nil {
			return err
		}
	}
	return nil
}

// conformanceProgress tells each result as it comes.
func conformanceProgress(w io.Writer) func(conformance.Result) {
	return func(r conformance.Result) {
		what := "holds"
		switch {
		case r.Holds == nil:
			what = "n/a: " + r.Detail
		case !*r.Holds:
			what = "DIFFERS: " + r.Detail
			if r.Reported != "" {
				what += " [" + r.Reported + "]"
			}
		}
		fmt.Fprintf(w, "%s %-20s %s: %s: %s (%.1f s)\n", time.Now().Format(time.TimeOnly), r.Proxier, r.Area, r.Behaviour, what, r.Seconds)
	}
}
