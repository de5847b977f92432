package tui

import "github.com/charmbracelet/bubbles/key"

// keyMap is all keys, declared once: what they do, when they do it, and what the help says of them.
type keyMap struct {
	Next, Previous, Pick       key.Binding
	Up, Down, PageUp, PageDown key.Binding
	Freeze, Filter, Zoom       key.Binding
	Help, Quit                 key.Binding

	// Of a replay.
	Back, Forward, FarBack, FarForward, Start, End, Slower, Faster key.Binding

	// Of a lab that is up.
	ScaleUp, ScaleDown, Affinity, Churn, Swap, Load, Kill, Rules key.Binding
}

func bind(help, says string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(help, says))
}

// newKeyMap has the keys that make sense: those of a replay, or those that act on a lab, are there only where there is one.
func newKeyMap(replay, control bool) keyMap {
	k := keyMap{
		Next: bind("tab", "next tab", "tab", "right"), Previous: bind("shift+tab", "tab before", "shift+tab", "left"),
		Pick: bind("1-7", "go to tab", "1", "2", "3", "4", "5", "6", "7"),
		Up:   bind("↑", "choose, up", "up"), Down: bind("↓", "choose, down", "down"),
		PageUp: bind("pgup", "page up", "pgup"), PageDown: bind("pgdn", "page down", "pgdown"),
		Freeze: bind("space", "freeze", " "), Filter: bind("/", "filter", "/"), Zoom: bind("z", "zoom time", "z"),
		Help: bind("?", "help", "?"), Quit: bind("q", "quit", "q", "ctrl+c"),

		Back: bind(",", "10s back", ","), Forward: bind(".", "10s on", "."),
		FarBack: bind("<", "1m back", "<"), FarForward: bind(">", "1m on", ">"),
		Start: bind("home", "to the start", "home", "g"), End: bind("end", "to the end", "end", "G"),
		Slower: bind("[", "slower", "["), Faster: bind("]", "faster", "]"),

		ScaleUp: bind("+", "one pod more", "+", "="), ScaleDown: bind("-", "one pod fewer", "-"),
		Affinity: bind("a", "affinity on, off", "a"), Churn: bind("c", "churn pods", "c"),
		Swap: bind("s", "swap proxier", "s"), Load: bind("l", "load on, off", "l"),
		Kill: bind("k", "kill a pod", "k"), Rules: bind("r", "read the rules", "r"),
	}
	if replay {
		k.Freeze.SetHelp("space", "pause")
	}
	for _, b := range []*key.Binding{&k.Back, &k.Forward, &k.FarBack, &k.FarForward, &k.Start, &k.End, &k.Slower, &k.Faster} {
		b.SetEnabled(replay)
	}
	for _, b := range []*key.Binding{&k.ScaleUp, &k.ScaleDown, &k.Affinity, &k.Churn, &k.Swap, &k.Load, &k.Kill, &k.Rules} {
		b.SetEnabled(control)
	}
	return k
}

// ShortHelp is the line at the bottom; what is most wanted comes first, since a narrow terminal cuts it off.
func (k keyMap) ShortHelp() []key.Binding {
	return []key.Binding{k.Quit, k.Help, k.Next, k.ScaleUp, k.ScaleDown, k.Affinity, k.Churn, k.Swap, k.Load, k.Kill,
		k.Freeze, k.Up, k.Faster, k.Slower, k.Forward, k.Back, k.End, k.Zoom, k.Filter, k.Rules}
}

// FullHelp is everything, by subject.
func (k keyMap) FullHelp() [][]key.Binding {
	return [][]key.Binding{
		{k.Next, k.Previous, k.Pick, k.Up, k.Down, k.PageUp, k.PageDown, k.Freeze, k.Filter, k.Zoom, k.Help, k.Quit},
		{k.Back, k.Forward, k.FarBack, k.FarForward, k.Start, k.End, k.Slower, k.Faster},
		{k.ScaleUp, k.ScaleDown, k.Affinity, k.Churn, k.Swap, k.Load, k.Kill, k.Rules},
	}
}
