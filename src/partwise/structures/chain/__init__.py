"""Label sequences: forward–backward and Viterbi, of any order."""
