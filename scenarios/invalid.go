package scenarios

import (
	"strings"

	"proxylab/scenarios/strict"
)

// Invalid says everything that is wrong with a scenario. It is wrong use: nothing has been started.
type Invalid struct {
	Problems []strict.Problem // in file order; never empty
}

// Error is one line per problem.
func (e *Invalid) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
