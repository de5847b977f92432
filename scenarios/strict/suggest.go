package strict

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Suggest ends a sentence about a word that is not among the known ones: with the nearest of them if one is near, else
// with all of them if they are few.
func Suggest(word string, known []string) string {
	best, least := "", reach(word)+1
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least && d < len(word) {
			best, least = k, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("; did you mean %s?", best)
	case len(known) > 0 && len(known) <= 20:
		return "; known here: " + strings.Join(known, ", ")
	}
	return ""
}

// reach is how far from a misspelt word the word may be that was meant.
func reach(word string) int { return max(1, utf8.RuneCountInString(word)/3) }

// distance is how many characters must be put in, taken out, changed, or changed over with their neighbour
// (Levenshtein's distance with transpositions, also called optimal string alignment).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range t {
		rows[0][j+1] = j + 1
	}
	for i := range s {
		for j := range t {
			change := rows[i][j]
			if s[i] != t[j] {
				change++
			}
			d := min(change, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				d = min(d, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = d
		}
	}
	return rows[len(s)][len(t)]
}
