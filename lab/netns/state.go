package netns

import (
	"path/filepath"
	"time"

	"proxylab/lab"
	"proxylab/lab/balancers"
	"proxylab/lab/controlplane"
	"proxylab/lab/labdir"
)

// Dir is the directory of a lab of that name, which is removed with the lab.
func Dir(name string) string { return labdir.Dir(name) }

func mountDir(name string) string { return filepath.Join(labdir.Dir(name), "mounts") }

// state is what Up was asked for, kept in the lab's directory for those who come later.
type state struct {
	Name       string                  `json:"name"`
	Kind       string                  `json:"kind"`
	Nodes      int                     `json:"nodes"`
	Created    time.Time               `json:"created"`
	Background controlplane.Background `json:"background"`
	Proxier    *lab.ProxierSpec        `json:"proxier,omitempty"`
	LBaaS      *balancers.State        `json:"lbaas,omitempty"`
	Complete   bool                    `json:"complete"` // Up came to its end
}

// loadState reads what is known of a lab; its error is fs.ErrNotExist where nothing is.
func loadState(name string) (s state, err error) {
	err = labdir.Load(name, &s)
	return s, err
}

func (s state) save() error { return labdir.Save(s.Name, s) }
