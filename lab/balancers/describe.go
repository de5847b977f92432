package balancers

import (
	"strings"

	"proxylab/lab"
	"proxylab/lab/labdir"
	"proxylab/lab/procs"
)

// Describe says how to reach the load balancers of a lab, of whatever kind; nil: it has none.
func Describe(name string) (*lab.LBaaS, error) {
	var s struct {
		LBaaS *State `json:"lbaas"`
	}
	if err := labdir.Load(name, &s); err != nil || s.LBaaS == nil {
		return nil, err
	}
	return &lab.LBaaS{
		Spec: s.LBaaS.LBaaSSpec, URL: s.LBaaS.URL(), OpenRC: openRC(name), Processes: func() (map[string]int, error) { return processes(name) },
	}, nil
}

// Tell adds to what is said of a lab; s may be nil.
func (s *State) Tell(info *lab.Info) error {
	if s == nil {
		return nil
	}
	found, err := processes(info.Name)
	info.LBaaS = s.URL()
	info.Complete = info.Complete && found[serverPart] > 0 && found[cloudPart] > 0
	return err
}

func processes(name string) (map[string]int, error) {
	all, err := procs.Find(name)
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, p := range all {
		if p.Part == serverPart || p.Part == cloudPart || strings.HasPrefix(p.Part, instancePart+"/") {
			found[p.Part] = p.PID
		}
	}
	return found, nil
}
