package octavia

import "proxylab/lab/lbaas/plane"

// Observe takes what the data plane has seen: members' states and listeners' counters become those of the API.
// A balancer that a call does not mention keeps what was seen before.
func (s *Service) Observe(seen []plane.Status) {}
