package balancers

import (
	"strings"

	"proxylab/lab"
	"proxylab/lab/procs"
)

// Describe says how to reach the load balancers of a lab; nil: it has none.
func Describe(name string, s *State) *lab.LBaaS {
	if s == nil {
		return nil
	}
	return &lab.LBaaS{Spec: s.LBaaSSpec, URL: s.URL(), OpenRC: openRC(name), Processes: func() (map[string]int, error) { return processes(name) }}
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

// Running says whether what answers for load balancers, and asks for them, runs.
func Running(name string) (bool, error) {
	found, err := processes(name)
	return found[serverPart] > 0 && found[cloudPart] > 0, err
}
