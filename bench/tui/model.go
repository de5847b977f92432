package tui

import (
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/help"
	"github.com/charmbracelet/bubbles/key"
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
)

// frameMsg says that it is time for the next frame.
type frameMsg time.Time

// nextFrame comes in its turn, or, where the last one had not the time for all its work, as soon as keys have been looked at.
func (m *model) nextFrame() tea.Cmd {
	wait := m.interval()
	if m.behind() {
		wait = time.Millisecond
	}
	return tea.Tick(wait, func(t time.Time) tea.Msg { return frameMsg(t) })
}

// interval is the time from one frame to the next. Whatever is played again moves as smoothly as it can; beside a run that is
// measured a view is not to take more of a processor than it needs.
func (m *model) interval() time.Duration {
	if _, replay := m.source.(*Player); replay {
		return time.Second / framesPerSecond
	}
	return time.Second / liveFrames
}

// page is one tab: a model of its own, with keys of its own.
type page interface {
	title() string
	setSize(w, h int)
	// key takes a key that the program has no use for, and says whether the page had.
	key(k keyMap, pressed tea.KeyMsg, v *view) bool
	draw(a area, v *view)
}

// view is what pages have in common: what there is to see, and what of it was chosen.
type view struct {
	state    *State
	now      time.Time // of the run
	filter   string
	zoom     int    // index of zooms
	load     string // chosen by its name, so that it stays chosen from one subject to the next
	coloured bool
	live     bool // the run goes on
	control  bool
	again    bool // a page did not get done with its work in time: another frame
	until    func() bool
	panes    map[string]*pane // by name

	// A key asked for another load; which there are is known when it is drawn.
	moveLoad int
}

// move takes the choice of a load to where the keys want it.
func (v *view) move(list []*Load) {
	if v.moveLoad != 0 {
		v.choose(list, v.moveLoad)
		v.moveLoad = 0
	}
}

// zooms are the stretches of time that charts show, in seconds; 0: all.
var zooms = []float64{0, 300, 60, 20}

// model is the program.
type model struct {
	source  Source
	options Options
	theme   *theme
	keys    keyMap
	help    help.Model
	filter  textinput.Model
	pages   []page
	view    view

	w, h      int
	page      int
	typing    bool // a filter
	asking    bool // whether to end the run
	stopping  bool
	forced    bool // stopped twice
	helping   bool
	frozen    bool
	ended     bool // the source
	concluded bool // the end was shown once
	menu      *menu
	quit      bool

	canvas    *canvas
	shortHelp []string // the line of keys, for help.Width

	drawn   string // the frame
	version int    // of the state in it
	second  int64  // of the clock in it
	touched bool   // by a key or a new size
}

func newModel(source Source, o Options, t *theme) *model {
	_, replay := source.(*Player)
	m := &model{
		source: source, options: o, theme: t, keys: newKeyMap(replay, o.Control != nil),
		help: help.New(), filter: textinput.New(), touched: true,
		pages: []page{&overview{}, &loadsPage{}, &syncsPage{}, &endpointsPage{}, &rulesPage{}, &balancerPage{}, &summaryPage{}},
	}
	m.help.Styles = help.Styles{} // the canvas has the colours
	m.help.ShortSeparator = " · "
	m.filter.Prompt, m.filter.CharLimit = "", 60
	none := lipgloss.NewStyle()
	m.filter.TextStyle, m.filter.PromptStyle, m.filter.PlaceholderStyle, m.filter.Cursor.Style = none, none, none, none
	m.view.coloured, m.view.control = t.colours(), o.Control != nil
	return m
}

// Init is tea.Model's.
func (m *model) Init() tea.Cmd { return m.nextFrame() }

// Update is tea.Model's.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case frameMsg:
		if m.source.Ended() && !m.options.Stay {
			m.quit = true
			return m, tea.Quit
		}
		m.frame(time.Time(msg))
		return m, m.nextFrame()
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tea.KeyMsg:
		m.touched = true
		if len(msg.Runes) <= 1 {
			m.press(msg)
		}
		for i := range msg.Runes { // typed so quickly that they came together
			if len(msg.Runes) > 1 && !m.quit {
				m.press(tea.KeyMsg{Type: msg.Type, Runes: msg.Runes[i : i+1]})
			}
		}
		if m.quit {
			return m, tea.Quit
		}
	}
	return m, nil
}

func (m *model) resize(w, h int) {
	m.w, m.h, m.touched = max(w, 0), max(h, 0), true
	for _, p := range m.pages {
		p.setSize(m.w, max(m.h-chrome(m.h), 0))
	}
}

// press does what a key says.
func (m *model) press(msg tea.KeyMsg) {
	switch {
	case msg.String() == "ctrl+c":
		m.leave()
	case m.typing:
		m.edit(msg)
	case m.asking:
		m.asking = false
		if s := msg.String(); s == "q" || s == "y" || s == "enter" {
			m.stop()
		}
	case m.menu != nil:
		if to, done := m.menu.press(msg); done {
			m.menu = nil
			if to != "" {
				m.options.Control.Do(Action{Kind: Swap, To: to})
			}
		}
	case m.helping:
		m.helping = false
	case m.command(msg), m.replay(msg), m.act(msg):
	default:
		m.pages[m.page].key(m.keys, msg, &m.view)
	}
}

// leave is q: it asks where there is a run to end. Ctrl-C does not ask.
func (m *model) leave() {
	if m.options.Stop == nil || m.source.Ended() {
		m.quit = true
		return
	}
	m.stop()
}

// stop ends the run in good order. The second time is for who does not want to wait for that: the view leaves first, so
// that the terminal is in order whatever happens then.
func (m *model) stop() {
	if m.stopping {
		m.quit, m.forced = true, true
		return
	}
	m.stopping = true
	m.options.Stop()
}

func (m *model) command(msg tea.KeyMsg) bool {
	k := m.keys
	switch {
	case key.Matches(msg, k.Quit):
		if m.options.Stop == nil || m.source.Ended() {
			m.quit = true
		} else if !m.stopping {
			m.asking = true
		}
	case key.Matches(msg, k.Next):
		m.page = (m.page + 1) % len(m.pages)
	case key.Matches(msg, k.Previous):
		m.page = (m.page + len(m.pages) - 1) % len(m.pages)
	case key.Matches(msg, k.Pick):
		m.page = int(msg.String()[0] - '1')
	case key.Matches(msg, k.Help):
		m.helping = true
	case key.Matches(msg, k.Filter):
		m.typing = true
		m.filter.SetValue(m.view.filter)
		m.filter.Focus()
	case key.Matches(msg, k.Zoom):
		m.view.zoom = (m.view.zoom + 1) % len(zooms)
	case key.Matches(msg, k.Freeze):
		m.frozen = !m.frozen
		m.source.Freeze(m.frozen)
	default:
		return false
	}
	return true
}

// replay does what only a replay can.
func (m *model) replay(msg tea.KeyMsg) bool {
	p, ok := m.source.(*Player)
	if !ok {
		return false
	}
	k := m.keys
	switch {
	case key.Matches(msg, k.Back):
		p.Seek(-10 * time.Second)
	case key.Matches(msg, k.Forward):
		p.Seek(10 * time.Second)
	case key.Matches(msg, k.FarBack):
		p.Seek(-time.Minute)
	case key.Matches(msg, k.FarForward):
		p.Seek(time.Minute)
	case key.Matches(msg, k.Start):
		p.SeekStart()
		m.concluded = false
	case key.Matches(msg, k.End):
		p.SeekEnd()
	case key.Matches(msg, k.Slower):
		p.Slower()
	case key.Matches(msg, k.Faster):
		p.Faster()
	default:
		return false
	}
	return true
}

// act does what changes a lab.
func (m *model) act(msg tea.KeyMsg) bool {
	k := m.keys
	for kind, b := range map[ActionKind]key.Binding{
		ScaleUp: k.ScaleUp, ScaleDown: k.ScaleDown, Affinity: k.Affinity, Churn: k.Churn, ToggleLoad: k.Load,
		KillPod: k.Kill, ShowRules: k.Rules,
	} {
		if key.Matches(msg, b) {
			m.options.Control.Do(Action{Kind: kind})
			return true
		}
	}
	if key.Matches(msg, k.Swap) {
		m.menu = &menu{items: m.options.Control.Swaps()}
		return true
	}
	return false
}

// edit edits the filter.
func (m *model) edit(msg tea.KeyMsg) {
	switch msg.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.view.filter = false, ""
	default:
		m.filter, _ = m.filter.Update(msg)
		m.view.filter = strings.TrimSpace(m.filter.Value())
	}
}

// frame draws anew what has changed.
func (m *model) frame(wall time.Time) {
	if m.w == 0 || m.h == 0 {
		m.drawn = ""
		return
	}
	m.ended = m.source.Ended() // the source is not to be asked while it shows its state
	if m.ended && !m.concluded && m.options.Stay {
		m.concluded, m.page, m.touched = true, len(m.pages)-1, true
	}
	m.source.Frame(wall, func(s *State, now time.Time) {
		if !m.touched && !m.view.again && s.version == m.version && now.Unix() == m.second {
			return
		}
		m.version, m.second, m.touched = s.version, now.Unix(), false
		m.draw(s, now)
	})
}

// behind says that there is work left which the last frame had no time for. A live run is never in such a hurry that it would take
// more of a processor for it.
func (m *model) behind() bool {
	p, replay := m.source.(*Player)
	return replay && (p.behind || m.view.again)
}

// View is tea.Model's.
func (m *model) View() string {
	if m.quit {
		return "" // the screen is about to be left
	}
	if m.touched { // by a key: it is to be answered at once
		m.frame(time.Now())
	}
	return m.drawn
}
