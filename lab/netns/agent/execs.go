package agent

import (
	"context"
	"strings"
	"sync"
	"time"

	"proxylab/lab/procs"
)

// execs finds the commands that run in pods' networks. To look through all processes costs some milliseconds: pods
// that end at the same time share one look.
type execs struct {
	mu     sync.Mutex
	looked time.Time // when the newest look began
	parts  []string
}

// end ends what runs in a pod.
func (e *execs) end(ctx context.Context, lab, namespace, pod string) error {
	part := ExecPart(namespace, pod)
	runs, err := e.runs(lab, part)
	if err != nil || !runs {
		return err
	}
	return procs.Stop(ctx, lab, part, 0)
}

func (e *execs) runs(lab, part string) (bool, error) {
	asked := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.looked.Before(asked) {
		looked := time.Now()
		found, err := procs.Find(lab)
		if err != nil {
			return false, err
		}
		e.looked, e.parts = looked, nil
		for _, p := range found {
			e.parts = append(e.parts, p.Part)
		}
	}
	for _, p := range e.parts {
		if p == part || strings.HasPrefix(p, part+"/") {
			return true, nil
		}
	}
	return false, nil
}
