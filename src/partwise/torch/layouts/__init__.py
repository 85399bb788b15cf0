"""Where the scores of a padded batch lie among a structure's parts, one file for each kind of structure."""
