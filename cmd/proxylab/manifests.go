package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"proxylab/lab/image"
	"proxylab/proxiers"
	"proxylab/proxiers/manifests"
)

func newManifests() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print what runs a native proxier on any cluster, and make its image",
	}
	cmd.AddCommand(newProxierManifest(), newProxierImage())
	return cmd
}

func newProxierManifest() *cobra.Command {
	var (
		o     manifests.Options
		flags proxierFlags
	)
	cmd := &cobra.Command{
		Use:   "proxier PROXIER",
		Short: "Print the DaemonSet that runs a native proxier on any cluster",
		Long: `Print a DaemonSet, with the service account it needs, that runs a native proxier on every node of a cluster. Its head
says how to make the image, how to take kube-proxy off the nodes, and how to go back.`,
		Example: `  proxylab manifests proxier nftables | kubectl apply -f -`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.validate(); err != nil {
				return err
			}
			info, err := proxiers.Lookup(args[0])
			if err == nil && !info.Native {
				err = fmt.Errorf("proxier %s: %w", args[0], manifests.ErrNotNative)
			}
			if err != nil {
				return usageError{err}
			}
			o.Proxier, o.MinSyncPeriod, o.SyncPeriod, o.Backend = info.Name, flags.minSync, flags.sync, flags.backend
			if info.Mode == "ipvs" {
				o.Scheduler = flags.scheduler
			}
			text, err := manifests.Proxier(o)
			if err != nil {
				return usageError{err}
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&o.Image, "image", manifests.DefaultImage, "image with proxylab and the tools of its proxiers")
	cmd.Flags().StringVar(&o.Server, "server", "", "address of the API server, which needs no Service (default: as kube-proxy's ConfigMap says)")
	flags.register(cmd)
	return cmd
}

func newProxierImage() *cobra.Command {
	var tag string
	cmd := &cobra.Command{
		Use:   "image FILE",
		Short: "Make the image that the DaemonSet runs, as an archive",
		Long: `Write an image archive, as docker save does: this program, and this machine's iptables, nft, ipset and conntrack with the
libraries they need. "kind load image-archive" and "docker load" read it.`,
		Example: `  proxylab manifests image proxier.tar && kind load image-archive proxier.tar`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			executable, err := os.Executable()
			if err != nil {
				return err
			}
			program, err := image.Self(executable)
			if err != nil {
				return err
			}
			files, absent, err := image.Tools(image.ProxierTools()...)
			if err != nil {
				return err
			}
			if len(absent) > 0 {
				slog.Warn("programs that this machine lacks are not in the image either", "missing", strings.Join(absent, ", "))
			}
			return image.Write(args[0], append(files, program), image.Image{Tag: tag, Entrypoint: []string{program.Path}})
		},
	}
	cmd.Flags().StringVar(&tag, "tag", manifests.DefaultImage, "name of the image")
	return cmd
}
