package conformance

import (
	"fmt"
	"time"
)

// Row is one behaviour.
type Row struct {
	Area string
	Name string
	// Faults are reports that the behaviour comes from, such as "k19029" for kubernetes/kubernetes issue 19029.
	Faults []string
	// NotApplicable says for which modes the behaviour cannot be had, and why.
	NotApplicable map[string]string
	// Known says of proxiers, by name, how they are known to differ.
	Known map[string]Difference
	// Alone rows have the proxier to themselves: they stop it, or change what other rows rely on.
	Alone bool
	// Quick rows are part of the subset that is run often.
	Quick bool
	// Limit is the time that the row may take; 0: two minutes, which is ten times what one takes on a machine at rest.
	Limit time.Duration
	Run   func(*T)
}

// Difference is a way in which a proxier is known to differ.
type Difference struct {
	How    string // in a few words
	Report string // where it was reported or is documented; empty: nobody seems to have
}

// ID is what patterns are matched against: the area and the name.
func (r Row) ID() string { return r.Area + ": " + r.Name }

func (r Row) limit() time.Duration {
	if r.Limit > 0 {
		return r.Limit
	}
	return 2 * time.Minute
}

// Check says what is wrong with a table of rows: names that are missing or given twice.
func Check(rows []Row) error {
	seen := map[string]bool{}
	for _, r := range rows {
		switch {
		case r.Area == "" || r.Name == "" || r.Run == nil:
			return fmt.Errorf("row %q has no area, no name or nothing to run", r.ID())
		case seen[r.Name]:
			return fmt.Errorf("two rows are called %q", r.Name)
		}
		seen[r.Name] = true
	}
	return nil
}
