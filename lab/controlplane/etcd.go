package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

const (
	etcdMember = "proxylab"
	// etcdPeerURL only names the one member there is. Nobody listens there.
	etcdPeerURL = "http://127.0.0.1:2380"
)

// etcdConfig is for one member without durability: a lab that outlives its machine's crash is of no use to anybody.
// An acknowledged write does survive the death of the process, because the log is in the kernel's hands then.
func etcdConfig(dataDir string) *embed.Config {
	// The log is preallocated in pieces of this size, which a populated data directory would carry along.
	wal.SegmentSizeBytes = 4 << 20
	peer, _ := url.Parse(etcdPeerURL) // a constant
	cfg := embed.NewConfig()
	cfg.Name = etcdMember
	cfg.Dir = dataDir
	cfg.InitialCluster = etcdMember + "=" + etcdPeerURL
	cfg.ListenPeerUrls = nil
	cfg.AdvertisePeerUrls = []url.URL{*peer}
	cfg.ListenClientUrls = nil
	cfg.AdvertiseClientUrls = nil
	cfg.UnsafeNoFsync = true
	// There is nobody to elect but itself: short ticks are for a quick start, though each costs a little for good.
	cfg.TickMs, cfg.ElectionMs = 20, 100
	// Raft's log is kept in memory up to a snapshot.
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 2000, 100
	cfg.MaxSnapFiles, cfg.MaxWalFiles = 1, 1
	cfg.QuotaBackendBytes = 8 << 30
	cfg.MaxTxnOps = 1024
	cfg.MaxRequestBytes = 8 << 20
	cfg.EnableGRPCGateway = false
	cfg.LogLevel = "warn"
	cfg.WarningApplyDuration = time.Second
	cfg.WarningUnaryRequestDuration = 2 * time.Second
	// kube-apiserver compacts (--etcd-compaction-interval), and relies on knowing when.
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = "periodic", "0"
	return cfg
}

func runEtcd(ctx context.Context, c *component) error {
	client := url.URL{Scheme: "unix", Path: c.etcdSocket()}
	cfg := etcdConfig(c.etcdData())
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	e, err := startEtcd(ctx, cfg)
	if err != nil {
		return err
	}
	defer e.Close() // takes the socket away
	if err := bootstrap(ctx, e.Server); err != nil {
		return err
	}
	if err := c.ready(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.Err():
		return fmt.Errorf("etcd: %w", err)
	case <-e.Server.StopNotify():
		return errors.New("etcd stopped")
	}
}

// startEtcd returns when it takes writes.
func startEtcd(ctx context.Context, cfg *embed.Config) (*embed.Etcd, error) {
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", cfg.Dir, err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err = <-e.Err():
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(30 * time.Second):
		err = errors.New("no leader after 30 s")
	}
	e.Close()
	return nil, fmt.Errorf("start etcd in %s: %w", cfg.Dir, err)
}
