package netns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"proxylab/lab/labdir"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/procs"
)

// goodbye is how long the lab's processes may take to end by themselves. Nothing of what they could still write
// outlives the lab.
const goodbye = 200 * time.Millisecond

// Down removes everything that the lab has on this machine, by its name alone, whatever state it is in. It is content
// when there is nothing.
func (l *Lab) Down(ctx context.Context) error { return down(ctx, l.Name(), l.log) }

// Remove takes down whatever a lab of that name has on this machine, also where nothing says that it was ever up: a
// process is enough. Its error is fs.ErrNotExist where there is nothing.
func Remove(ctx context.Context, name string) error {
	known, err := names()
	if err != nil {
		return err
	}
	if !slices.Contains(known, name) {
		return fmt.Errorf("there is no lab %q: %w", name, fs.ErrNotExist)
	}
	return down(ctx, name, slog.Default().With("lab", name))
}

func down(ctx context.Context, name string, log *slog.Logger) error {
	unlock, err := labdir.Lock(ctx, name, func() {
		log.Info("waiting for another proxylab that is at work on this lab")
	})
	if err != nil {
		return err
	}
	defer unlock()
	for {
		if err := removeAll(ctx, name); err != nil {
			return fmt.Errorf("take down lab %s: %w", name, err)
		}
		// A process that was just being started when its parent was killed may have shown up late.
		left, err := procs.Find(name)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
	}
	err = labdir.Forget(name)
	if err == nil {
		log.Info("lab is gone")
	}
	return err
}

func removeAll(ctx context.Context, name string) error {
	if err := procs.Stop(ctx, name, "", goodbye); err != nil {
		return err
	}
	return errors.Join(
		fabric.Remove(name),
		fabric.Unmount(labdir.Dir(name)),
		os.RemoveAll(labdir.Dir(name)))
}

// DownAll takes down every lab of this kind, also what a crash left of one.
func DownAll(ctx context.Context) error {
	names, err := names()
	if err != nil {
		return err
	}
	var g errgroup.Group
	errs := make([]error, len(names))
	for i, name := range names {
		g.Go(func() error {
			errs[i] = down(ctx, name, slog.Default().With("lab", name))
			return nil
		})
	}
	_ = g.Wait() // every lab has its turn; the errors are in errs
	return errors.Join(errs...)
}

// names finds all labs by what they have on the machine: namespaces, directories, processes.
func names() ([]string, error) {
	all, err := fabric.Labs()
	if err != nil {
		return nil, err
	}
	known, err := labdir.Names()
	if err != nil {
		return nil, err
	}
	all = append(all, known...)
	running, err := procs.Find("")
	if err != nil {
		return nil, err
	}
	for _, p := range running {
		all = append(all, p.Lab)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(name string) bool { return fabric.ValidName(name) != nil || isOther(name) }), nil
}

// isOther says that a lab is known to be of another kind. What says nothing of itself is a leftover of this one.
func isOther(name string) bool {
	s, err := loadState(name)
	return err == nil && s.Kind != "" && s.Kind != Kind
}
