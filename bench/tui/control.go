package tui

// Control acts on a lab that is up. What comes of it is told by events, as in a run.
type Control interface {
	// Do begins an action and returns at once. Actions are done one after the other.
	Do(Action)
	// Swaps are the proxiers to choose from.
	Swaps() []string
}

// Action is something to do to a lab.
type Action struct {
	Kind ActionKind
	To   string // Swap: the proxier
}

// ActionKind is what an Action does.
type ActionKind string

// What can be done to a lab.
const (
	ScaleUp    ActionKind = "scale up"   // one pod more
	ScaleDown  ActionKind = "scale down" // one pod fewer
	Affinity   ActionKind = "affinity"   // session affinity on, or off again
	Churn      ActionKind = "churn"      // pods die and others take their place, for some seconds
	Swap       ActionKind = "swap"       // another proxier
	ToggleLoad ActionKind = "load"       // start traffic, or stop it
	KillPod    ActionKind = "kill"       // the pod that serves longest
	ShowRules  ActionKind = "rules"      // read them
)
