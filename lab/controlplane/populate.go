package controlplane

import (
	"context"
	"fmt"
	"net/netip"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"golang.org/x/sys/unix"
)

const backgroundPart = "background"

// backgroundCommand makes a populated etcd data directory. It is a process of its own so that its memory is gone
// afterwards.
func backgroundCommand() *cobra.Command {
	var (
		b              Background
		data, services string
	)
	cmd := &cobra.Command{
		Use:          backgroundPart,
		Short:        "Make an etcd data directory with dummy Services",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := netip.ParsePrefix(services)
			if err != nil {
				return fmt.Errorf("service range: %w", err)
			}
			if err := b.validate([]netip.Prefix{r}); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGTERM, unix.SIGINT)
			defer stop()
			return b.populate(ctx, data, r)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "directory to make")
	cmd.Flags().StringVar(&services, "service-range", "", "IPv4 range of ClusterIPs")
	cmd.Flags().IntVar(&b.Services, "services", 0, "number of Services")
	cmd.Flags().IntVar(&b.EndpointsPerService, "endpoints", 0, "endpoints of each Service")
	return cmd
}

// populate writes the background into a new etcd data directory.
func (b Background) populate(ctx context.Context, dataDir string, services netip.Prefix) error {
	e, err := startEtcd(ctx, etcdConfig(dataDir))
	if err != nil {
		return err
	}
	defer e.Close()
	w := newBatchWriter(e.Server)
	for obj, err := range b.objects(services, time.Now()) {
		if err != nil {
			return err
		}
		if err := w.put(ctx, obj); err != nil {
			return err
		}
	}
	return w.close(ctx)
}

// batchWriter writes many keys in few transactions.
type batchWriter struct {
	client *clientv3.Client
	ops    []clientv3.Op
	last   int64 // revision
}

func newBatchWriter(s *etcdserver.EtcdServer) *batchWriter {
	return &batchWriter{client: v3client.New(s)}
}

func (w *batchWriter) put(ctx context.Context, s stored) error {
	w.ops = append(w.ops, clientv3.OpPut(s.key, string(s.value)))
	if len(w.ops) < 500 {
		return nil
	}
	return w.flush(ctx)
}

func (w *batchWriter) flush(ctx context.Context) error {
	if len(w.ops) == 0 {
		return nil
	}
	resp, err := w.client.Txn(ctx).Then(w.ops...).Commit()
	if err != nil {
		return fmt.Errorf("write %d objects: %w", len(w.ops), err)
	}
	w.ops, w.last = w.ops[:0], resp.Header.Revision
	return nil
}

// close writes what is left and gives freed space back, as the directory is going to be copied.
func (w *batchWriter) close(ctx context.Context) error {
	defer w.client.Close()
	if err := w.flush(ctx); err != nil {
		return err
	}
	if _, err := w.client.Compact(ctx, w.last, clientv3.WithCompactPhysical()); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}
